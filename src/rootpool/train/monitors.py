"""Lightning callbacks that measure during training: covariances, and seconds per epoch."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor
from torch.utils.hooks import RemovableHandle

from rootpool.nn import CovariancePool, covariance_pools
from rootpool.report.records import Record, read_records, write_records
from rootpool.report.spectrum import spectrum_statistics

__all__ = ["EpochTimer", "SpectrumMonitor"]


class SpectrumMonitor(Callback):
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
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
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
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
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

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._remove_hooks()

    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
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


class EpochTimer(Callback):
    """Writes the seconds of each epoch, validation included, to a file of records.

    The file is the only memory: times are not part of a checkpoint, so that a resumed run can end with the
    same bits as one that was not interrupted. An epoch that was interrupted counts from where it resumed.

    Args:
        path: a ``.csv`` or ``.json`` file; a resumed run keeps the earlier epochs in it.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._start = time.perf_counter()

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._start = time.perf_counter()

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.is_global_zero:
            return
        epoch, seconds = trainer.current_epoch, time.perf_counter() - self._start
        earlier = read_records(self.path) if epoch and self.path.exists() else []
        kept = [record for record in earlier if record["epoch"] < epoch]
        write_records([*kept, {"epoch": epoch, "seconds": round(seconds, 3)}], self.path)
