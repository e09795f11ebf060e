"""What a person sees of a training: a line per epoch, and in a terminal a bar."""

from __future__ import annotations

import sys
import time
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback, Checkpoint, RichProgressBar

__all__ = ["EpochLines", "best_epoch", "epoch_line", "progress_callbacks"]


def progress_callbacks() -> list[Callback]:
    """Lines, which logs of ``nohup`` and of a cluster keep, and a bar where somebody watches."""
    return [EpochLines(), *([RichProgressBar()] if sys.stdout.isatty() else [])]


class EpochLines(Checkpoint):
    """One line per epoch: losses, errors, images per second, time left.

    (A Checkpoint, because those hear of the end of an epoch after its record is complete.)
    """

    def __init__(self) -> None:
        self._began, self._first = 0.0, 0  # the training, from its first epoch or from a resume
        self._images, self._since, self._per_second = 0, 0.0, 0.0  # of the running epoch

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._began, self._first = time.perf_counter(), trainer.current_epoch
        self._images, self._since = 0, self._began  # a resume does not pass the start of its epoch

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._images, self._since = 0, time.perf_counter()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self._images += len(batch[1]) * trainer.world_size
        self._per_second = self._images / max(time.perf_counter() - self._since, 1e-9)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not trainer.is_global_zero:
            return
        record: dict[str, Any] = pl_module.history[-1]  # type: ignore[assignment, index]
        done, epochs, left = record["epoch"] + 1, trainer.max_epochs, None
        if epochs is not None and epochs > 0:
            each = (time.perf_counter() - self._began) / (done - self._first)
            left = each * (epochs - done)
        print(epoch_line(record, epochs, self._per_second, left), flush=True)


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
