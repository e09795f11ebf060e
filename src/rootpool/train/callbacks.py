"""Lightning callbacks of a run: what it measures, which files it writes, when it ends."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Mapping
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

from .progress import epoch_line

__all__ = [
    "Patience",
    "RunCheckpoint",
    "RunFiles",
    "SpectrumMonitor",
    "StepCheckpoint",
    "weight_average",
]

CONFIG, RESULT = "config.yaml", "result.json"


class SpectrumMonitor(pl.Callback):
    """:func:`spectrum_statistics` of the features that enter each :class:`CovariancePool`, every k steps.

    Hooks are on the pools only during the steps that are measured. Only the process of rank zero
    measures, on its own share of the batch. With accumulated gradients the first batch of a step counts.

    Args:
        every_n_steps: optimizer steps between two measurements.

    Attributes:
        records: one flat dict per measurement and pool: ``step``, ``epoch``, ``pool`` (the name of the
            module) and the statistics. They are saved in the checkpoint; a resumed run appends to them.
    """

    def __init__(self, every_n_steps: int) -> None:
        self.every_n_steps = every_n_steps
        self.records: list[Record] = []
        self._step = -1  # of the last measurement
        self._handles: list[RemovableHandle] = []

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        step = trainer.global_step
        if step % self.every_n_steps or step == self._step or not trainer.is_global_zero:
            return
        self._step = step
        for name, pool in covariance_pools(pl_module).items():
            where = {"step": step, "epoch": trainer.current_epoch, "pool": name}
            hook = functools.partial(self._measure, pl_module, pool, where)
            self._handles.append(pool.reduction.register_forward_hook(hook))

    def _measure(
        self, logger: pl.LightningModule, pool: CovariancePool, where: Record, *args: Any
    ) -> None:
        features: Tensor = args[-1]
        eps = torch.finfo(pool.working_dtype(features.device)).eps
        found = spectrum_statistics(features, eps=eps)
        self.records.append({**where, **found})
        logged = {f"spectrum/{where['pool']}/{key}": float(value) for key, value in found.items()}
        logger.log_dict(logged, on_step=True, on_epoch=False, rank_zero_only=True)

    def on_train_batch_end(self, *_: Any) -> None:
        while self._handles:
            self._handles.pop().remove()

    def on_exception(self, *_: Any) -> None:
        self.on_train_batch_end()

    def state_dict(self) -> dict[str, Any]:
        return {"records": list(self.records), "step": self._step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.records = list(state_dict["records"])
        self._step = state_dict["step"]


class RunFiles(Checkpoint):
    """The files of a run besides its checkpoints: settings, records of epochs, times, the result.

    ``config.yaml`` is written when the first batch is there: a training that is refused, or whose images
    cannot be read, leaves its folder as it was. ``history.csv`` and ``spectrum.csv`` come from the
    checkpoint and continue after a resume (Lightning's CSVLogger begins a resumed run by deleting the file).
    ``timing.csv``, the seconds of each epoch, is its own memory: times are in no checkpoint, so that a
    resumed run can end with the same bits. An epoch that was interrupted counts from where it resumed.

    ``result.json`` has the images of the last validation that were taken for another class, by their place
    among all. They are in the checkpoints, because a run that was killed at its end does not validate again.
    With several devices each sees a part of the images, and nothing is noted.

    (A Checkpoint, because those hear of the end of an epoch after its record is complete.)

    Args:
        output: the folder.
        config: the text of ``config.yaml``.
        lines: whether to print a line per epoch.
    """

    def __init__(self, output: Path, config: str, *, lines: bool = False) -> None:
        self.output = output
        self.config = config
        self.lines = lines
        self.missed: dict[str, Any] = {"images": 0, "missed": [], "taken_for": []}
        self._begun = False
        self._started, self._first = 0.0, 0  # the training, from its first epoch or from a resume
        self._since, self._images, self._rate = 0.0, 0, 0.0  # of the running epoch

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._started, self._first = time.perf_counter(), trainer.current_epoch
        self.on_train_epoch_start()  # which a resume in the middle of an epoch does not pass

    def on_train_epoch_start(self, *_: Any) -> None:
        self._since, self._images = time.perf_counter(), 0

    def on_train_batch_start(self, trainer: pl.Trainer, *_: Any) -> None:
        if not self._begun and trainer.is_global_zero:
            self.begin()

    def begin(self) -> None:
        """Write the configuration; the run has not ended, or not any more."""
        self._begun = True
        (self.output / RESULT).unlink(missing_ok=True)
        write_atomically(self.output / CONFIG, self.config)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: Any, *_: int
    ) -> None:
        self._images += len(batch[1]) * trainer.world_size
        self._rate = self._images / max(time.perf_counter() - self._since, 1e-9)

    def on_validation_epoch_start(self, trainer: pl.Trainer, *_: Any) -> None:
        if not trainer.sanity_checking:
            self.missed = {"images": 0, "missed": [], "taken_for": []}

    def on_validation_batch_end(
        self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: Any, *_: int
    ) -> None:
        # A sanity check sees a few batches, before a run goes on.
        if trainer.sanity_checking or trainer.world_size > 1:
            return
        wrong = (pl_module.predicted != batch[1]).nonzero().flatten()
        self.missed["missed"] += (wrong + self.missed["images"]).tolist()
        self.missed["taken_for"] += pl_module.predicted[wrong].tolist()
        self.missed["images"] += len(batch[1])

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        if not trainer.is_global_zero:
            return
        write_records(pl_module.history, self.output / "history.csv")
        for callback in trainer.callbacks:  # type: ignore[attr-defined]
            if isinstance(callback, SpectrumMonitor):
                write_records(callback.records, self.output / "spectrum.csv")
        epoch, now, timing = trainer.current_epoch, time.perf_counter(), self.output / "timing.csv"
        earlier = read_records(timing) if epoch and timing.exists() else []
        kept = [record for record in earlier if record["epoch"] < epoch]
        write_records([*kept, {"epoch": epoch, "seconds": round(now - self._since, 3)}], timing)
        if self.lines:
            each = (now - self._started) / (epoch + 1 - self._first)
            print(
                epoch_line(pl_module.history[-1], trainer.max_epochs, self._rate, each), flush=True
            )

    def end(self, seconds: float, classes: int, diverged: Mapping[str, int] | None) -> None:
        """Note that the training has ended, in the last file of a run."""
        if diverged is not None or not (self.output / CONFIG).exists():
            self.begin()  # before the first step it diverged, or ended
        if not (self.output / RESULT).exists():  # else there was nothing left to train
            about = {"seconds": round(seconds, 2), "classes": classes}
            result = {**about, **self.missed, "diverged": diverged}
            write_atomically(self.output / RESULT, json.dumps(result) + "\n")

    def state_dict(self) -> dict[str, Any]:
        return self.missed

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.missed = state_dict


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
