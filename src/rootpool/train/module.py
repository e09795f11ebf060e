"""The one LightningModule: a pooled classifier, trained by default as in the paper."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
import torch.nn.functional as F
from lightning.pytorch.utilities import rank_zero_warn
from torch import Tensor, nn
from torchmetrics import MeanMetric
from torchmetrics.classification import MulticlassAccuracy

from rootpool.models import (
    PooledClassifier,
    Stages,
    create_model,
    load_checkpoint,
    parameter_groups,
    split_at_frozen,
)
from rootpool.models.spec import FETCHING
from rootpool.nn import Branch, Length, covariance_pools, resolve_pool, set_method
from rootpool.train.config import SettingsError

from .checkpoints import checkpoint_of
from .optimisation import check_ranges, make_mixture, make_optimizer, make_schedule
from .sampling import derive_seed
from .settings import BranchSettings, ModelSettings
from .typed import from_dictionary

__all__ = ["PooledTraining", "rebuild"]


class PooledTraining(pl.LightningModule):
    """A backbone, a covariance pooling and a classifier, and how they learn.

    Args:
        settings: the network, its optimizer and schedule.
        num_classes: outputs of the classifier.
        classes: names of the classes, kept in the checkpoint for predictions.
        seed: of dropout and other random layers, together with the step.
    """

    def __init__(
        self,
        settings: ModelSettings,
        *,
        num_classes: int = 1000,
        classes: list[str] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        # Plain data, because a checkpoint is loaded without executing anything.
        decided = {"num_classes": num_classes, "classes": classes, "seed": seed}
        self.save_hyperparameters({**asdict(settings), **decided})
        _check(settings, num_classes)
        self.milestones = sorted(settings.milestones or [])
        self.model = _create_model(settings, num_classes)
        if settings.weights is not None:
            weights = checkpoint_of(Path(settings.weights))
            load_checkpoint(weights, self.model, num_classes=num_classes)
        if settings.freeze:
            self.model.freeze(settings.freeze)
        self.model.freeze_norm_statistics(settings.frozen_norms)
        if settings.channels_last:  # convolutions pass it on, whatever images come in
            self.model.to(memory_format=torch.channels_last)
        self._mix = make_mixture(settings.mixup, settings.cutmix, num_classes)
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
        self.predicted: Tensor | None = None
        """Classes of the last batch."""
        self.mirrored = settings.mirrored
        self.step_seed = 0
        self._rate = settings.lr
        self._measured: dict[str, float] = {}  # of the epoch that is running
        self._behind_frozen: tuple[
            nn.Module, ...
        ] = ()  # not registered: its layers are the model's

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> PooledTraining:
        """The network of a checkpoint, from the plain data in it; its weights are the first ones."""
        names = ("num_classes", "classes", "seed")
        settings = {name: value for name, value in options.items() if name not in names}
        made = from_dictionary(ModelSettings, settings)
        return cls(made, **{name: options[name] for name in names})

    @property
    def pooling(self) -> str:
        """The method in use now; a hybrid training changes it."""
        pools = covariance_pools(self.model)
        return next(iter(pools.values())).method.name if pools else "gap"

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.model(images)
        if self.mirrored and not self.training:
            logits = (logits + self.model(images.flip(-1))) / 2
        return logits

    def skip_frozen(self) -> Stages:
        """Take cached features of the frozen stages as input from now on, instead of images.

        Returns:
            the frozen stages.
        """
        options = self.hparams
        if not options["freeze"] or options["unfreeze_epoch"] is not None:
            raise SettingsError(
                "data.cache keeps what frozen stages make of images: it needs model.freeze, without "
                f"model.unfreeze_epoch, got {options['freeze']} and {options['unfreeze_epoch']}"
            )
        if self._mix is not None:
            raise SettingsError("model.mixup and model.cutmix mix images; leave out data.cache")
        try:
            first, rest = split_at_frozen(self.model.backbone)  # type: ignore[arg-type]
        except (ValueError, TypeError, RuntimeError) as error:
            raise SettingsError(
                f"data.cache cannot be used with model.backbone={options['backbone']} and model.freeze="
                f"{options['freeze']}: {error}"
            ) from error
        self._behind_frozen = (rest,)
        return first

    def _logits(self, inputs: Tensor | Mapping[str, Tensor]) -> Tensor:
        """Of images, or of the cached features of their views: the mean over these."""
        if isinstance(inputs, Tensor):
            logits: Tensor = self(inputs)
            return logits
        maps = {stage: features.flatten(0, 1) for stage, features in inputs.items()}
        views = next(iter(inputs.values())).shape[1]
        logits = self.model.forward_head(self._behind_frozen[0](maps))
        return logits.unflatten(0, (-1, views)).mean(1)

    # Steps

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        # Random layers depend on the step alone, so a resumed run draws what an uninterrupted one draws.
        part = batch_idx % self.trainer.accumulate_grad_batches
        counters = (self.hparams["seed"], self.global_step, self.global_rank, part)
        self.step_seed = derive_seed(*(counters if part else counters[:-1]))
        if torch.accelerator.is_available():
            torch.manual_seed(self.step_seed)
        else:  # without one, that function keeps a traceback for each call, for the day that it appears
            torch.default_generator.manual_seed(self.step_seed)
        # Noted here, because Lightning steps the schedule before it tells us that the epoch has ended.
        self._rate = self.trainer.optimizers[0].param_groups[-1]["lr"]

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        return self._measure("train", batch)

    def validation_step(self, batch: Any, batch_idx: int) -> Tensor:
        return self._measure("val", batch)

    def loss(self, images: Any, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The loss of a batch, its logits and labels; labels of mixed samples are shares of classes."""
        if self.training and self._mix is not None:
            images, labels = self._mix(images, labels)
        logits = self._logits(images)
        smoothing = self.hparams["label_smoothing"] if self.training else 0.0
        return F.cross_entropy(logits, labels, label_smoothing=smoothing), logits, labels

    def _measure(self, split: str, batch: tuple[Any, Tensor]) -> Tensor:
        loss, logits, labels = self.loss(*batch)
        self.predicted = logits.detach().argmax(-1)
        true = labels.argmax(-1) if labels.is_floating_point() else labels
        for name, metric in self._metrics(split):
            if name.endswith("loss"):
                metric.update(loss.detach(), weight=len(labels))
            else:
                metric.update(logits.detach().float(), true)
        return loss

    def _metrics(self, split: str) -> Iterator[tuple[str, Any]]:
        return ((name, metric) for name, metric in self.metrics.items() if name.startswith(split))

    # Epochs

    def on_train_epoch_start(self) -> None:
        self._unfreeze_in_time()

    def on_train_start(self) -> None:
        self._unfreeze_in_time()  # a resume in the middle of an epoch does not pass its start

    def _unfreeze_in_time(self) -> None:
        epoch = self.hparams["unfreeze_epoch"]
        if epoch is not None and self.current_epoch >= epoch:
            self.model.unfreeze()

    def _log_epoch(self, split: str) -> None:
        for name, metric in self._metrics(split):
            value = metric.compute()
            if not name.endswith("loss"):
                value = 100 * (1 - value)
            self.log(name, value, rank_zero_only=True)
            self._measured[name] = float(value)
            metric.reset()

    def on_train_epoch_end(self) -> None:
        self._log_epoch("train")
        self.log("lr", self._rate, rank_zero_only=True)
        # Without a validation in this epoch, its values are missing from the record.
        measured = {name: self._measured[name] for name in self.metrics if name in self._measured}
        self._measured.clear()
        record = {"epoch": self.current_epoch, "lr": self._rate, "pooling": self.pooling}
        self.history.append({**record, **measured})

    def on_validation_epoch_end(self) -> None:
        self._log_epoch("val")
        if self.trainer.sanity_checking:  # a few batches before the first epoch
            self._measured.clear()

    # Optimisation

    def configure_optimizers(self) -> Any:
        options = self.hparams
        later = options["unfreeze_epoch"] is not None
        if later and self._trainer is not None and self.trainer.world_size > 1:
            # DistributedDataParallel exchanges only gradients of what learns from the beginning.
            raise SettingsError(
                "model.unfreeze_epoch works with one device; train the frozen part first, then a second "
                "run with --weights and without model.freeze"
            )
        if later:
            self.model.unfreeze()  # the optimizer has all from the beginning, so it can be resumed
        backbone_lr = options["lr"] if options["backbone_lr"] is None else options["backbone_lr"]
        groups = parameter_groups(
            self.model,
            lr=options["lr"],
            backbone_lr=backbone_lr,
            pool_lr=options["pool_lr"],
            decay_norms=options["decay_norms"],
        )
        if later:
            self.model.freeze(options["freeze"])
        optimizer = make_optimizer(
            options["optimizer"],
            groups,
            lr=options["lr"],
            momentum=options["momentum"],
            weight_decay=options["weight_decay"],
            options=options["optimizer_options"],
        )
        epochs, steps_per_epoch = self._length()
        schedule, interval = make_schedule(
            options["schedule"],
            optimizer,
            milestones=self.milestones,
            warmup_epochs=options["warmup_epochs"],
            min_share=options["min_share"],
            epochs=epochs,
            steps_per_epoch=steps_per_epoch,
        )
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": schedule, "interval": interval},
        }

    def _length(self) -> tuple[float, float]:
        """Epochs of the whole training, and steps of the optimizer in each; 1 and 1 where no schedule asks.

        Not by Lightning's ``estimated_stepping_batches``: it sets up the loader before the checkpoint is
        restored, and a resumed run would then begin its epoch anew.
        """
        by_epoch = self.hparams["schedule"] == "steps" and not self.hparams["warmup_epochs"]
        if by_epoch or self._trainer is None or self.trainer.max_epochs == 0:
            return 1.0, 1.0
        batches = len(self.trainer.datamodule.train_dataloader())  # type: ignore[attr-defined]
        limit = self.trainer.limit_train_batches
        batches = min(limit, batches) if isinstance(limit, int) else int(limit * batches)
        steps = max(math.ceil(batches / self.trainer.accumulate_grad_batches), 1)
        limits = (self.trainer.max_epochs, self.trainer.max_steps / steps)
        epochs = min((x for x in limits if x is not None and x > 0), default=math.inf)
        if epochs == math.inf:
            raise SettingsError(
                f"model.schedule={self.hparams['schedule']} must know how long the training is; give "
                "trainer.max_epochs"
            )
        warmup = self.hparams["warmup_epochs"]
        if warmup >= epochs and not self.trainer.fast_dev_run:  # type: ignore[attr-defined]
            rank_zero_warn(
                f"the training ends with its warm-up (model.warmup_epochs={warmup:g}, and it has {epochs:g} "
                "epochs), and never learns at its full rate"
            )
        return epochs, steps

    # Checkpoints

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        # A hybrid training uses another method first than the one asked for.
        checkpoint["method"] = self.pooling
        checkpoint["history"] = self.history
        checkpoint["metrics"] = {
            name: _state(metric) for name, metric in self._metrics("train") if metric.update_count
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.history = list(checkpoint["history"])
        if self.global_rank == 0:  # what all processes have counted so far is in the file
            for name, state in checkpoint.get("metrics", {}).items():
                for key, value in state.items():
                    setattr(self.metrics[name], key, value.to(self.device))


def _check(settings: ModelSettings, num_classes: int) -> None:
    check_ranges(asdict(settings))
    if num_classes < 2:
        raise SettingsError(
            f"a classifier needs two classes or more, got {num_classes}; the data must have a folder "
            "per class"
        )
    if settings.milestones and settings.schedule != "steps":
        raise SettingsError(
            f"model.milestones={settings.milestones} are those of model.schedule=steps, got "
            f"{settings.schedule}; leave one of them out"
        )
    for name, value in (("length", settings.length), ("power", settings.power)):
        if value is not None and not value > 0:
            raise SettingsError(f"model.{name} must be positive, got {value:g}")
    if settings.unfreeze_epoch is not None and not settings.freeze:
        raise SettingsError("model.unfreeze_epoch needs model.freeze, such as backbone")


def _create_model(settings: ModelSettings, num_classes: int) -> PooledClassifier:
    """The network; options that it does not have, or that are settings of their own, are mistakes."""
    name, options, dtype = (
        settings.backbone,
        settings.backbone_options or {},
        settings.compute_dtype,
    )
    whole = _branch(settings, BranchSettings("last"))
    decided: dict[str, Any] = {
        "pool": whole.pool,
        "num_classes": num_classes,
        "reduction": whole.reduction,
        "scaling": whole.scaling,
        "compute_dtype": None if dtype is None else getattr(torch, dtype),
        "channel_dropout": settings.drop,
        "drop_rate": settings.drop_rate,
    }
    if settings.branches is not None:
        pools = [_branch(settings, branch) for branch in settings.branches]
        decided |= {"pool": pools, "reduction": None, "scaling": None}
    twice = sorted({*decided, "name"} & options.keys())
    if twice:
        raise SettingsError(
            f"model.backbone_options has {', '.join(twice)}, which the other settings of the model and the "
            "data decide; see model.method, reduction, length, compute_dtype, drop and drop_rate"
        )
    try:
        return create_model(name, **decided, **options)
    except (TypeError, ValueError) as error:
        if not options:
            raise
        raise SettingsError(
            f"model.backbone_options {dict(options)} do not suit {name}: {error}. For another backbone than "
            "that of a recipe, give its own, or model.backbone_options=null, and its own model.freeze"
        ) from error


def _branch(settings: ModelSettings, branch: BranchSettings) -> Branch:
    """The pooling of a stage; what the branch leaves out comes from the model."""
    if branch.method is None:
        pool = resolve_pool(settings.method, **(settings.method_options or {}))
    else:
        pool = resolve_pool(branch.method)
    reduction = settings.reduction if branch.reduction is None else branch.reduction
    length = settings.length if branch.length is None else branch.length
    power = settings.power if branch.power is None else branch.power
    if length is None and power != 1:
        raise SettingsError(f"model.power={power:g} needs model.length, such as 1.0")
    return Branch(branch.stage, pool, reduction, None if length is None else Length(length, power))


def _state(metric: Any) -> dict[str, Tensor]:
    """The sums of a metric over all processes."""
    with metric.sync_context():
        return {key: value.detach().clone() for key, value in metric.metric_state.items()}


def rebuild(checkpoint: Mapping[str, Any]) -> PooledTraining:
    """The network of a checkpoint, with the method that was in use when it was saved.

    Where its first weights came from does not matter any more: all of them are in the checkpoint.
    """
    options = {**checkpoint["hyper_parameters"], "weights": None}
    network = options["backbone_options"] or {}
    options["backbone_options"] = {k: v for k, v in network.items() if k not in FETCHING}
    module = PooledTraining.from_options(options)
    module.load_state_dict(checkpoint["state_dict"])
    if covariance_pools(module) and checkpoint["method"] != module.pooling:
        set_method(module, checkpoint["method"])
    return module


def _accuracy(num_classes: int, k: int) -> MulticlassAccuracy:
    return MulticlassAccuracy(num_classes, top_k=min(k, num_classes), average="micro")
