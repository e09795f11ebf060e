"""The paper's hybrid protocol: Newton-Schulz first, an accurate square root for the last stage."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.utilities import rank_zero_info, rank_zero_warn

from rootpool.nn import covariance_pools, resolve_method, set_method

from .settings import HybridSchedule

__all__ = ["HybridProtocol"]


class HybridProtocol(pl.Callback):
    """Callback that trains with the method ``schedule.start`` first and with ``final`` after the switch.

    The method is a function of the epoch, so a run resumed at any epoch has the right one.

    Args:
        schedule: when to switch.
        final: method after the switch; None for the method that the model was built with.
    """

    def __init__(self, schedule: HybridSchedule, final: Any = None) -> None:
        self.schedule = schedule
        # An unknown name is an error here, not at the switch.
        self.start = resolve_method(schedule.start)
        self.final = None if final is None else resolve_method(final)
        self._final: Any = self.final  # of the model that is trained now
        self._dtypes: list[torch.dtype | None] = []  # of its pools, after the switch

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        if stage != "fit":
            return
        pools = list(covariance_pools(pl_module).values())
        self._dtypes = [pool.compute_dtype for pool in pools]
        self._final = self.final or (pools[0].method if pools else None)
        if self._final == self.start:
            raise ValueError(
                f"the model was built with {self.start.name}, which the hybrid training starts with, so that "
                "there is nothing to switch to; build it with another method, or give final="
            )
        self._check_decay(getattr(pl_module, "milestones", None))
        self._apply(trainer, pl_module)  # set_method refuses a model without pools
        epochs, switch = trainer.max_epochs, self.schedule.switch_epoch
        ends = epochs is not None and 0 <= epochs <= switch
        if ends and not trainer.fast_dev_run:  # type: ignore[attr-defined]
            rank_zero_warn(
                f"this training never switches to {self._final.name}: the switch is after epoch {switch}, "
                f"and it ends after {epochs}; {self.start.name} is used throughout"
            )

    def _check_decay(self, milestones: list[int] | None) -> None:
        decay = self.schedule.decay_epoch
        if milestones and milestones[-1] != decay:
            switch = milestones[-1] - self.schedule.warmup_epochs
            possible = (
                f"switch_epoch={switch}" if switch >= 1 else f"milestones that end with {decay}"
            )
            raise ValueError(
                f"the hybrid schedule ends its warm-up after {decay} epochs, but the last learning-rate "
                f"decay is after {milestones[-1]}; try {possible}"
            )

    def _apply(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        first = self.schedule.stage(trainer.current_epoch) == "start"
        set_method(pl_module, self.start if first else self._final)
        early = self.schedule.start_dtype if first else None
        pools = covariance_pools(pl_module).values()
        for pool, dtype in zip(pools, self._dtypes, strict=True):
            pool.compute_dtype = dtype if early is None else getattr(torch, early)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        # A resume in the middle of an epoch does not pass on_train_epoch_start.
        self._apply(trainer, pl_module)

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._apply(trainer, pl_module)
        epoch = trainer.current_epoch
        if epoch == self.schedule.switch_epoch:
            rank_zero_info(f"epoch {epoch + 1}: {self.schedule.start} -> {self._final}")
