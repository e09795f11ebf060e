"""Lightning callbacks of a run: what it measures, which files it writes, when it ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import (
    Checkpoint,
    EarlyStopping,
    ModelCheckpoint,
    WeightAveraging,
)
from torch import Tensor
from torch.utils.hooks import RemovableHandle

from rootpool.files import write_atomically
from rootpool.nn import CovariancePool, covariance_pools
from rootpool.report.records import Record, read_records, write_records
from rootpool.report.spectrum import spectrum_statistics

__all__ = [
    "MissedImages",
    "Patience",
    "RunCheckpoint",
    "RunRecords",
    "SpectrumMonitor",
    "StepCheckpoint",
    "weight_average",
]

CONFIG, RESULT = "config.yaml", "result.json"


# --------------------------------------------------------------------------------------------------
# Measurements


class SpectrumMonitor(pl.Callback):
    """:func:`spectrum_statistics` of the features that enter each :class:`CovariancePool`, every k steps.

    Hooks are on the pools only during the steps that are measured. Only the process of rank zero
    measures, on its own share of the batch. With accumulated gradients the first batch of a step counts.

    Args:
        every_n_steps: optimizer steps between two measurements; 0, the default, measures nothing.
        samples: use only the first maps of the batch, this many; None uses all.

    Attributes:
        records: one flat dict per measurement and pool: ``step``, ``epoch``, ``pool`` (the name of the
            module) and the statistics. They are saved in the checkpoint; a resumed run appends to them.

    >>> SpectrumMonitor(every_n_steps=100).records
    []
    """

    def __init__(self, every_n_steps: int = 0, samples: int | None = None) -> None:
        for name, value, least in (("every_n_steps", every_n_steps, 0), ("samples", samples, 1)):
            if value is not None and (not isinstance(value, int) or value < least):
                raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")
        self.every_n_steps = every_n_steps
        self.samples = samples
        self.records: list[Record] = []
        self._step = -1  # of the last measurement
        self._fresh: list[Record] = []
        self._handles: list[RemovableHandle] = []

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        step = trainer.global_step
        if not self.every_n_steps or step % self.every_n_steps or step == self._step:
            return
        if not trainer.is_global_zero:
            return
        self._step = step
        for name, pool in covariance_pools(pl_module).items():
            where = {"step": step, "epoch": trainer.current_epoch, "pool": name}
            self._handles.append(self._watch(pool, where))

    def _watch(self, pool: CovariancePool, where: Record) -> RemovableHandle:
        def hook(module: torch.nn.Module, args: Any, features: Tensor) -> None:
            eps = torch.finfo(pool.working_dtype(features.device)).eps
            statistics = spectrum_statistics(features[: self.samples], eps=eps)
            self._fresh.append({**where, **statistics})

        return pool.reduction.register_forward_hook(hook)

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        self._remove_hooks()
        for record in self._fresh:
            values = {
                f"spectrum/{record['pool']}/{key}": float(value)
                for key, value in record.items()
                if key not in ("step", "epoch", "pool")
            }
            pl_module.log_dict(values, on_step=True, on_epoch=False, rank_zero_only=True)
        self.records += self._fresh
        self._fresh = []

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._remove_hooks()

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        self._remove_hooks()

    def _remove_hooks(self) -> None:
        while self._handles:
            self._handles.pop().remove()

    def state_dict(self) -> dict[str, Any]:
        return {"records": list(self.records), "step": self._step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.records = list(state_dict["records"])
        self._step = state_dict["step"]


class MissedImages(pl.Callback):
    """Notes which images of the last validation were taken for something else, by their place among all.

    ``taken_for`` has the class that each was taken for, and ``images`` is how many there were. All are in the
    checkpoints, because a run that was killed at its end does not validate again. With several devices each
    sees a part of the images, and nothing is noted.
    """

    def __init__(self) -> None:
        self.images = 0
        self.missed: list[int] = []
        self.taken_for: list[int] = []

    def on_validation_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not trainer.sanity_checking:
            self.images, self.missed, self.taken_for = 0, [], []

    def on_validation_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, *_: int
    ) -> None:
        # A sanity check sees a few batches, before a run goes on.
        if trainer.sanity_checking or trainer.world_size > 1:
            return
        labels = batch[1]
        wrong = (pl_module.predicted != labels).nonzero().flatten()
        self.missed += (wrong + self.images).tolist()
        self.taken_for += pl_module.predicted[wrong].tolist()  # type: ignore[index]
        self.images += len(labels)

    def state_dict(self) -> dict[str, Any]:
        return {"images": self.images, "missed": self.missed, "taken_for": self.taken_for}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        vars(self).update(state_dict)


# --------------------------------------------------------------------------------------------------
# Files


class RunRecords(Checkpoint):
    """Writes ``config.yaml`` when the first batch is there, and after each epoch the records of all so far.

    A training that is refused, or whose images cannot be read, therefore leaves its folder as it was.
    ``history.csv`` and ``spectrum.csv`` come from the checkpoint and continue after a resume (Lightning's
    CSVLogger begins a resumed run by deleting the file). ``timing.csv``, the seconds of each epoch, is its
    own memory: times are in no checkpoint, so that a resumed run can end with the same bits. An epoch that
    was interrupted counts from where it resumed.

    Args:
        output: the folder.
        config: the text of ``config.yaml``.
    """

    def __init__(self, output: Path, config: str) -> None:
        self.output = output
        self.config = config
        self._begun = False
        self._since = 0.0

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._since = time.perf_counter()

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._since = time.perf_counter()

    def on_train_batch_start(self, trainer: pl.Trainer, *_: Any) -> None:
        if not self._begun and trainer.is_global_zero:
            self.begin()

    def begin(self) -> None:
        """Write the configuration; the run has not ended, or not any more."""
        self._begun = True
        (self.output / RESULT).unlink(missing_ok=True)
        write_atomically(self.output / CONFIG, self.config)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not trainer.is_global_zero:
            return
        write_records(pl_module.history, self.output / "history.csv")  # type: ignore[arg-type]
        for callback in trainer.callbacks:  # type: ignore[attr-defined]
            if isinstance(callback, SpectrumMonitor):
                write_records(callback.records, self.output / "spectrum.csv")
        epoch, seconds = trainer.current_epoch, round(time.perf_counter() - self._since, 3)
        timing = self.output / "timing.csv"
        earlier = read_records(timing) if epoch and timing.exists() else []
        kept = [record for record in earlier if record["epoch"] < epoch]
        write_records([*kept, {"epoch": epoch, "seconds": seconds}], timing)


class RunCheckpoint(ModelCheckpoint):
    """A checkpoint of one name in the folder of a run, wherever that folder is by now.

    Lightning forgets the best score of a run whose folder was moved, and takes paths from the checkpoint.
    Ours takes the score alone, if the checkpoint that has it is there.
    """

    def __init__(self, output: Path, name: str, **when: Any) -> None:
        super().__init__(output, filename=name, enable_version_counter=False, **when)
        self.path = str(Path(str(self.dirpath)) / f"{name}.ckpt")

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        score = state_dict["best_model_score"]
        if self.monitor is None or score is None or not Path(self.path).is_file():
            return
        self.best_model_score = self.kth_value = score
        self.best_model_path = self.kth_best_model_path = self.path
        self.best_k_models = {self.path: score}


class StepCheckpoint(RunCheckpoint):
    """Saves within an epoch: after a step of the optimizer, but not after the last batch.

    Gradients of a step that is still being accumulated are in no checkpoint. And the checkpoint of the
    epoch follows the last batch at once: a run resumed from between the two would skip the validation
    and the step of the learning rate.
    """

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        stepped = (batch_idx + 1) % trainer.accumulate_grad_batches == 0
        if stepped and not trainer.is_last_batch:
            super().on_train_batch_end(trainer, pl_module, outputs, batch, batch_idx)


# --------------------------------------------------------------------------------------------------
# The end, and the average


class Patience(EarlyStopping):
    """Ends a training after some epochs without a lower validation error, those before a resume included."""

    def __init__(self, epochs: int) -> None:
        super().__init__("val_error", patience=epochs)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict({**state_dict, "patience": self.patience})  # it may have changed

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        # A run that has ended by it does not go on for another epoch.
        trainer.should_stop = self.wait_count >= self.patience


def weight_average(decay: float) -> WeightAveraging:
    r"""The exponential moving average of the weights, in validation and in what is saved.

    In the first steps it forgets faster, by :math:`\min(d, (1 + t) / (10 + t))` in step t: with a constant
    decay a short training would be validated with little more than its first weights.
    (Lightning's and not timm's: its state is in the checkpoint, so that a resume is exact.)
    """

    def update(average: Tensor, current: Tensor, count: Tensor) -> Tensor:
        kept = ((1 + count) / (10 + count)).clamp(max=decay)
        return kept * average + (1 - kept) * current

    rule: Callable[..., Tensor] = update
    return WeightAveraging(avg_fn=rule)
