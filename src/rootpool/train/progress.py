"""What a person sees of a training: a line per epoch, and in a terminal a bar."""

from __future__ import annotations

import sys
import time
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback, Checkpoint, RichProgressBar
from torch import Tensor

__all__ = ["EpochLines", "TrainingBar", "best_epoch", "epoch_line", "watching"]

REFRESH = 0.5  # seconds between two looks at the metrics, each of which waits for an accelerator


def watching() -> list[Callback]:
    """Lines, which logs of ``nohup`` and of a cluster keep, and a bar where somebody watches."""
    return [EpochLines(), *([TrainingBar()] if sys.stdout.isatty() else [])]


class _Counting(Callback):
    """Counts the images of the running epoch."""

    images = 0
    per_second = 0.0
    _since = 0.0

    def _restart(self) -> None:
        self.images, self._since = 0, time.perf_counter()

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        super().on_train_start(trainer, pl_module)
        self._restart()  # a resume in the middle of an epoch does not pass its start

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        super().on_train_epoch_start(trainer, pl_module)
        self._restart()

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        self.images += len(batch[1]) * trainer.world_size
        self.per_second = self.images / max(time.perf_counter() - self._since, 1e-9)
        super().on_train_batch_end(trainer, pl_module, outputs, batch, batch_idx)


class TrainingBar(_Counting, RichProgressBar):
    """Lightning's bar, with the time left, and beside it what the running epoch has come to."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: dict[str, Any] = {}
        self._looked = 0.0

    def get_metrics(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> dict[str, Any]:
        """Loss and error so far, images per second, and the best validation error of all epochs."""
        if not self.images or time.perf_counter() - self._looked < REFRESH:
            return self._shown
        self._looked = time.perf_counter()
        metrics: Any = pl_module.metrics
        loss, right = _now(metrics["train_loss"]), _now(metrics["train_error"])
        best = best_epoch(pl_module.history)  # type: ignore[arg-type]
        self._shown = {
            "loss": f"{loss:.3f}",
            "error": f"{100 * (1 - right):.1f} %",
            "images/s": f"{self.per_second:.0f}",
            **({} if best is None else {"best": f"{best['val_error']:.2f} %"}),
        }
        return self._shown


def _now(metric: Any) -> float:
    """The mean so far in this process; to ask the others would stop them at every look."""
    state: dict[str, Tensor] = metric.metric_state
    if "mean_value" in state:
        return float(state["mean_value"] / state["weight"])
    right, wrong = state["tp"].sum(), state["fn"].sum()
    return float(right / (right + wrong))


class EpochLines(_Counting, Checkpoint):
    """One line per epoch: losses, errors, images per second, time left.

    (A Checkpoint, because those hear of the end of an epoch after its record is complete.)
    """

    def __init__(self) -> None:
        self._began, self._first = 0.0, 0

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        super().on_train_start(trainer, pl_module)
        self._began, self._first = time.perf_counter(), trainer.current_epoch

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not trainer.is_global_zero:
            return
        record: dict[str, Any] = pl_module.history[-1]  # type: ignore[assignment, index]
        done, epochs, left = record["epoch"] + 1, trainer.max_epochs, None
        if epochs is not None and epochs > 0:
            each = (time.perf_counter() - self._began) / (done - self._first)
            left = each * (epochs - done)
        print(epoch_line(record, epochs, self.per_second, left), flush=True)


def epoch_line(
    record: dict[str, Any], epochs: int | None, rate: float, seconds_left: float | None
) -> str:
    """An epoch in words.

    >>> record = {"epoch": 0, "lr": 0.1, "train_loss": 2.5, "train_error": 61.0, "val_error": 50.0}
    >>> epoch_line(record, 10, 512.3, 4000.0)
    'epoch 0 of 10: train loss 2.500, error 61.00 %; val error 50.00 %; lr 0.1; 512 images/s; 1 h 6 min left'
    """
    parts = []
    for split in ("train", "val"):
        texts = [
            f"{name} {record[f'{split}_{name}']:{form}}"
            for name, form in (("loss", ".3f"), ("error", ".2f"))
            if f"{split}_{name}" in record
        ]
        if texts:
            parts.append(f"{split} {', '.join(texts)}" + " %" * texts[-1].startswith("error"))
    total = f" of {epochs}" if epochs is not None and epochs > 0 else ""
    parts += [f"lr {record['lr']:.3g}", f"{rate:.0f} images/s"]
    if seconds_left:
        parts.append(f"{_duration(seconds_left)} left")
    return f"epoch {record['epoch']}{total}: " + "; ".join(parts)


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(max(round(seconds), 1), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


def best_epoch(history: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The record with the lowest validation error, the first of several; None without a validation."""
    measured = [record for record in history if "val_error" in record]
    return min(measured, key=lambda record: record["val_error"]) if measured else None
