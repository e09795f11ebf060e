"""The one LightningModule: a pooled classifier, trained by default as in the paper."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import lightning.pytorch as pl
import torch
import torch.nn.functional as F
from lightning.pytorch.utilities import rank_zero_warn
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from rootpool.models import Stages, parameter_groups, split_at_frozen
from rootpool.models.spec import FETCHING
from rootpool.nn import covariance_pools, set_method

from .config import SettingsError, from_dictionary
from .network import make_network
from .optimisation import make_mixture, make_optimizer, rate_share
from .sampling import derive_seed
from .settings import ModelSettings
from .strategies import Sharded

__all__ = ["PooledTraining", "rebuild"]

TRAIN, VAL = ("train_loss", "train_error"), ("val_loss", "val_error", "val_error5")


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
        self.settings = settings
        self.model = make_network(settings, num_classes)
        self.milestones = sorted(settings.milestones or [])
        self.mirrored = settings.mirrored
        self.history: list[dict[str, Any]] = []
        """One record per epoch: epoch, learning rate, pooling, losses and errors in per cent."""
        self.predicted: Tensor | None = None
        """Classes of the last batch."""
        self._mix = make_mixture(settings, num_classes)
        self._rate = settings.lr
        self._sums: dict[
            tuple[str, ...], Tensor
        ] = {}  # over the samples of the epoch that is running
        self._validated: dict[str, float] = {}  # of the epoch that is running
        self._behind_frozen: list[nn.Module] = []  # not registered: its layers are the model's

    @property
    def pooling(self) -> str:
        """The method in use now; a hybrid training changes it."""
        pools = covariance_pools(self.model)
        return next(iter(pools.values())).method.name if pools else "gap"

    def configure_model(self) -> None:
        if isinstance(self.trainer.strategy, Sharded):
            self.trainer.strategy.shard(self.model.backbone, self.model.pool, self.model.classifier)

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
        settings = self.settings
        if not settings.freeze or settings.unfreeze_epoch is not None:
            raise SettingsError(
                "data.cache keeps what frozen stages make of images: it needs model.freeze, without "
                f"model.unfreeze_epoch, got {settings.freeze} and {settings.unfreeze_epoch}"
            )
        if self._mix is not None:
            raise SettingsError("model.mixup and model.cutmix mix images; leave out data.cache")
        try:
            first, rest = split_at_frozen(self.model.backbone)  # type: ignore[arg-type]
        except (ValueError, TypeError, RuntimeError) as error:
            raise SettingsError(
                f"data.cache cannot be used with model.backbone={settings.backbone} and model.freeze="
                f"{settings.freeze}: {error}"
            ) from error
        self._behind_frozen = [rest]
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
        seed = derive_seed(*(counters if part else counters[:-1]))
        if torch.accelerator.is_available():
            torch.manual_seed(seed)
        else:  # without one, that function keeps a traceback for each call, for the day that it appears
            torch.default_generator.manual_seed(seed)
        # Noted here, because Lightning steps the schedule before it tells us that the epoch has ended.
        self._rate = self.trainer.optimizers[0].param_groups[-1]["lr"]

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        return self._measure(TRAIN, batch)

    def validation_step(self, batch: Any, batch_idx: int) -> Tensor:
        return self._measure(VAL, batch)

    def loss(self, images: Any, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The loss of a batch, its logits and labels; labels of mixed samples are shares of classes."""
        if self.training and self._mix is not None:
            images, labels = self._mix(images, labels)
        logits = self._logits(images)
        smoothing = self.settings.label_smoothing if self.training else 0.0
        return F.cross_entropy(logits, labels, label_smoothing=smoothing), logits, labels

    def _measure(self, names: tuple[str, ...], batch: tuple[Any, Tensor]) -> Tensor:
        """The loss of a batch; loss, errors and samples are added to the sums of the epoch."""
        loss, logits, labels = self.loss(*batch)
        true = labels.argmax(-1) if labels.is_floating_point() else labels
        best = logits.detach().topk(min(5, logits.shape[-1])).indices
        self.predicted = best[:, 0]
        missed = (best != true.unsqueeze(-1)).cumprod(-1)[:, [0, -1]].sum(0)
        count = missed.new_tensor([len(true)])
        sums = torch.cat([loss.detach().float() * count, missed, count])
        self._sums[names] = self._sums.get(names, 0) + sums
        return loss

    # Epochs

    def on_train_epoch_start(self) -> None:
        self._unfreeze_in_time()

    def on_train_start(self) -> None:
        self._unfreeze_in_time()  # a resume in the middle of an epoch does not pass its start

    def _unfreeze_in_time(self) -> None:
        epoch = self.settings.unfreeze_epoch
        if epoch is not None and self.current_epoch >= epoch:
            self.model.unfreeze()

    def _summed(self, names: tuple[str, ...]) -> Tensor:
        """The sums of an epoch over all processes."""
        own = self._sums.get(names, torch.zeros(4, device=self.device))  # it may have had no batch
        total: Tensor = self.trainer.strategy.reduce(own.clone(), reduce_op="sum")
        return total

    def _log_epoch(self, names: tuple[str, ...]) -> dict[str, float]:
        """The mean loss and the errors in per cent, which are also logged."""
        *sums, count = self._summed(names).tolist()
        self._sums.pop(names, None)
        factors = (1, 100, 100)
        found = {name: f * x / count for name, f, x in zip(names, factors, sums, strict=False)}
        self.log_dict(found, rank_zero_only=True)
        return found

    def on_train_epoch_end(self) -> None:
        found = self._log_epoch(TRAIN)
        self.log("lr", self._rate, rank_zero_only=True)
        record = {"epoch": self.current_epoch, "lr": self._rate, "pooling": self.pooling}
        # Without a validation in this epoch, its values are missing from the record.
        self.history.append({**record, **found, **self._validated})
        self._validated = {}

    def on_validation_epoch_end(self) -> None:
        found = self._log_epoch(VAL)
        if not self.trainer.sanity_checking:  # a few batches before the first epoch
            self._validated = found

    # Optimisation

    def configure_optimizers(self) -> Any:
        settings = self.settings
        later = settings.unfreeze_epoch is not None
        if later and self._trainer is not None and self.trainer.world_size > 1:
            # DistributedDataParallel exchanges only gradients of what learns from the beginning.
            raise SettingsError(
                "model.unfreeze_epoch works with one device; train the frozen part first, then a second "
                "run with --weights and without model.freeze"
            )
        if later:
            self.model.unfreeze()  # the optimizer has all from the beginning, so it can be resumed
        groups = parameter_groups(
            self.model,
            lr=settings.lr,
            backbone_lr=settings.lr if settings.backbone_lr is None else settings.backbone_lr,
            pool_lr=settings.pool_lr,
            decay_norms=settings.decay_norms,
        )
        if later:
            self.model.freeze(settings.freeze)  # type: ignore[arg-type]
        optimizer = make_optimizer(settings, groups)
        by_epoch = settings.schedule == "steps" and not settings.warmup_epochs
        epochs, steps = (math.inf, 1) if by_epoch else self._length()
        schedule = LambdaLR(optimizer, lambda step: rate_share(settings, step / steps, epochs))
        interval = "epoch" if by_epoch else "step"
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": schedule, "interval": interval},
        }

    def _length(self) -> tuple[float, int]:
        """Epochs of the whole training, and steps of the optimizer in each.

        Not by Lightning's ``estimated_stepping_batches``: it sets up the loader before the checkpoint is
        restored, and a resumed run would then begin its epoch anew.
        """
        if self._trainer is None or self.trainer.max_epochs == 0:
            return 1, 1
        batches = len(self.trainer.datamodule.train_dataloader())  # type: ignore[attr-defined]
        limit = self.trainer.limit_train_batches
        batches = min(limit, batches) if isinstance(limit, int) else int(limit * batches)
        steps = max(math.ceil(batches / self.trainer.accumulate_grad_batches), 1)
        limits = (self.trainer.max_epochs, self.trainer.max_steps / steps)
        epochs = min((x for x in limits if x is not None and x > 0), default=math.inf)
        if epochs == math.inf:
            raise SettingsError(
                f"model.schedule={self.settings.schedule} must know how long the training is; give "
                "trainer.max_epochs"
            )
        warmup = self.settings.warmup_epochs
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
        checkpoint["sums"] = self._summed(TRAIN) if TRAIN in self._sums else None

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.history = list(checkpoint["history"])
        if self.global_rank == 0 and checkpoint["sums"] is not None:  # what all have counted so far
            self._sums[TRAIN] = checkpoint["sums"].to(self.device)


def rebuild(checkpoint: Mapping[str, Any]) -> PooledTraining:
    """The network of a checkpoint, with the method that was in use when it was saved.

    Where its first weights came from does not matter any more: all of them are in the checkpoint.
    """
    options = {**checkpoint["hyper_parameters"], "weights": None}
    decided = {name: options.pop(name) for name in ("num_classes", "classes", "seed")}
    network = options["backbone_options"] or {}
    options["backbone_options"] = {k: v for k, v in network.items() if k not in FETCHING}
    module = PooledTraining(from_dictionary(ModelSettings, options), **decided)
    module.load_state_dict(checkpoint["state_dict"])
    if covariance_pools(module) and checkpoint["method"] != module.pooling:
        set_method(module, checkpoint["method"])
    return module
