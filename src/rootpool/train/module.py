"""The one LightningModule: a pooled classifier trained by SGD with step decay, as in the paper."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import lightning.pytorch as pl
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchmetrics import MeanMetric
from torchmetrics.classification import MulticlassAccuracy

from rootpool.models import create_model, load_checkpoint, parameter_groups
from rootpool.models.spec import FETCHING
from rootpool.nn import LearnedFilter, covariance_pools, resolve_pool, set_method

from .sampling import derive_seed

__all__ = ["PooledTraining", "rebuild"]


Precision = Literal["float32", "float64"]


class PooledTraining(pl.LightningModule):
    """A backbone, a covariance pooling and a classifier, with the paper's optimisation.

    Args:
        backbone: a name that `rootpool.models.create_model` knows.
        backbone_options: its options, such as ``{"last_stride": 1}``.
        method: a name in ``METHODS``, or ``"gap"`` for average pooling.
        method_options: its parameters, such as ``{"bound": 1e8}``; None for the paper's.
        reduction: channels after the 1x1 convolution before the covariance; None for the backbone's own
            choice.
        compute_dtype: what the pooling computes in.
        num_classes: outputs of the classifier.
        weights: a checkpoint to start from; its classifier is left out when its number of classes differs.
        lr: initial learning rate (of the classifier, when ``backbone_lr`` is given).
        backbone_lr: initial learning rate of everything before the classifier; None for ``lr``, 0 to leave it
            as it is.
        momentum: of SGD.
        weight_decay: of SGD.
        milestones: epochs at whose beginning the rate is divided by ten.
        classes: names of the classes, kept in the checkpoint for predictions.
        seed: what dropout and other random layers are seeded with, together with the step.
    """

    def __init__(
        self,
        backbone: str = "patchnet",
        backbone_options: dict[str, Any] | None = None,
        method: str = "exact",
        method_options: dict[str, Any] | None = None,
        reduction: int | None = None,
        compute_dtype: Precision = "float64",
        num_classes: int = 1000,
        weights: str | None = None,
        lr: float = 0.1,
        backbone_lr: float | None = None,
        momentum: float = 0.9,
        weight_decay: float = 1e-4,
        milestones: list[int] | None = None,
        classes: list[str] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.milestones = sorted(milestones or [])
        self.model = create_model(
            backbone,
            pool=resolve_pool(method, **(method_options or {})),
            num_classes=num_classes,
            reduction=reduction,
            compute_dtype=getattr(torch, compute_dtype),
            **(backbone_options or {}),
        )
        if weights is not None:
            load_checkpoint(weights, self.model, num_classes=num_classes)
        self.metrics = nn.ModuleDict(
            {
                "train_loss": MeanMetric(nan_strategy="disable"),
                "train_error": _accuracy(num_classes, 1),
                "val_loss": MeanMetric(nan_strategy="disable"),
                "val_error": _accuracy(num_classes, 1),
                "val_error5": _accuracy(num_classes, 5),
            }
        )
        self.history: list[dict[str, Any]] = []
        """One record per epoch: epoch, learning rate, pooling, losses and errors in per cent."""
        self._rate = lr
        self._measured: dict[str, float] = {}  # of the epoch that is running

    @property
    def pooling(self) -> str:
        """The method in use now; a hybrid training changes it."""
        pools = covariance_pools(self.model)
        return next(iter(pools.values())).method.name if pools else self.hparams["method"]

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.model(images)
        return logits

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        # Random layers depend on the step alone, so a resumed run draws what an uninterrupted one draws.
        torch.manual_seed(derive_seed(self.hparams["seed"], self.global_step, self.global_rank))
        # Noted here, because Lightning steps the schedule before it tells us that the epoch has ended.
        self._rate = self.trainer.optimizers[0].param_groups[-1]["lr"]

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        return self._loss("train", batch)

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        return self._loss("val", batch)

    def _loss(self, split: str, batch: tuple[Tensor, Tensor]) -> Tensor:
        images, labels = batch
        logits = self(images)
        loss = F.cross_entropy(logits, labels)
        for name, metric in self._metrics(split):
            if name.endswith("loss"):
                metric.update(loss.detach(), weight=len(labels))
            else:
                metric.update(logits.detach().float(), labels)
        return loss

    def _metrics(self, split: str) -> Iterator[tuple[str, Any]]:
        return ((name, metric) for name, metric in self.metrics.items() if name.startswith(split))

    def _log_epoch(self, split: str) -> None:
        for name, metric in self._metrics(split):
            value = metric.compute()
            if not name.endswith("loss"):
                value = 100 * (1 - value)
            self.log(name, value, prog_bar=name.endswith("error"), rank_zero_only=True)
            self._measured[name] = float(value)
            metric.reset()

    def on_train_epoch_end(self) -> None:
        self._log_epoch("train")
        self.log("lr", self._rate, rank_zero_only=True)
        # Without a validation in this epoch, its values are missing from the record.
        measured = {name: self._measured[name] for name in self.metrics if name in self._measured}
        self._measured.clear()
        record = {"epoch": self.current_epoch, "lr": self._rate, "pooling": self.pooling}
        self.history.append({**record, **measured, **self._learned()})

    def _learned(self) -> dict[str, float]:
        """What the filter of the pooling has learned, if it has one."""
        for pool in covariance_pools(self.model).values():
            if isinstance(pool.method, LearnedFilter):
                found = pool.method.readable(pool.learned[pool.method.name])
                return {name.replace(" ", "_"): value for name, value in found.items()}
        return {}

    def on_validation_epoch_end(self) -> None:
        self._log_epoch("val")
        if self.trainer.sanity_checking:  # a few batches before the first epoch
            self._measured.clear()

    def configure_optimizers(self) -> Any:
        hparams = self.hparams
        backbone_lr = hparams["lr"] if hparams["backbone_lr"] is None else hparams["backbone_lr"]
        groups = parameter_groups(self.model, lr=hparams["lr"], backbone_lr=backbone_lr)
        optimizer = torch.optim.SGD(
            groups,
            lr=hparams["lr"],
            momentum=hparams["momentum"],
            weight_decay=hparams["weight_decay"],
        )
        schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, self.milestones, gamma=0.1)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": schedule, "interval": "epoch"},
        }

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        # A hybrid training uses another method first than the one asked for.
        checkpoint["method"] = self.pooling
        checkpoint["history"] = self.history

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.history = list(checkpoint["history"])


def rebuild(checkpoint: Mapping[str, Any]) -> PooledTraining:
    """The network of a checkpoint, with the method that was in use when it was saved.

    Where its first weights came from does not matter any more: all of them are in the checkpoint.
    """
    options = {**checkpoint["hyper_parameters"], "weights": None}
    backbone_options = options["backbone_options"] or {}
    options["backbone_options"] = {
        name: value for name, value in backbone_options.items() if name not in FETCHING
    }
    module = PooledTraining(**options)
    module.load_state_dict(checkpoint["state_dict"])
    if covariance_pools(module) and checkpoint["method"] != options["method"]:
        set_method(module, checkpoint["method"])
    return module


def _accuracy(num_classes: int, k: int) -> MulticlassAccuracy:
    return MulticlassAccuracy(num_classes, top_k=min(k, num_classes), average="micro")
