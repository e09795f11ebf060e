"""The paper's hybrid protocol: Newton-Schulz first, an accurate square root for the last stage."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.utilities import rank_zero_info, rank_zero_warn

from rootpool.nn import covariance_pools, resolve_method, set_method

from .settings import STAGES, HybridSchedule

__all__ = ["HybridProtocol"]


class HybridProtocol(pl.Callback):
    """Callback that trains with the method ``schedule.start`` first and with ``final`` after the switch.

    The method is a function of the epoch, so a run resumed at any epoch has the right one.
    The stage is logged as ``hybrid_stage`` (0, 1, 2 as in ``STAGES``).

    Args:
        schedule: when to switch.
        final: method after the switch; None for the method that the model was built with.
    """

    def __init__(self, schedule: HybridSchedule, final: Any = None) -> None:
        resolve_method(schedule.start)  # an unknown name is an error here, not at the switch
        self.schedule = schedule
        self.final = None if final is None else resolve_method(final)
        self._final: Any = self.final  # of the model that is trained now

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        if stage != "fit":
            return
        pools = list(covariance_pools(pl_module).values())
        start = resolve_method(self.schedule.start)
        self._final = self.final or (
            pools[0].method if pools else start
        )  # set_method refuses no pools
        if pools and self._final == start:
            raise ValueError(
                f"the model was built with {start.name}, which the hybrid training starts with, so that "
                "there is nothing to switch to; build it with another method, or give final="
            )
        self._check_decay(pl_module)
        self._apply(trainer, pl_module)
        self._check_length(trainer)

    def _check_length(self, trainer: pl.Trainer) -> None:
        epochs = trainer.max_epochs
        ends = epochs is not None and 0 <= epochs <= self.schedule.switch_epoch
        if ends and not trainer.fast_dev_run:  # type: ignore[attr-defined]
            rank_zero_warn(
                f"this training never switches to {self._final.name}: the switch is at epoch "
                f"{self.schedule.switch_epoch}, and it ends after {epochs}; {self.schedule.start} is used "
                "throughout"
            )

    def _check_decay(self, pl_module: pl.LightningModule) -> None:
        milestones = getattr(pl_module, "milestones", None)
        if milestones and milestones[-1] != self.schedule.decay_epoch:
            switch = milestones[-1] - self.schedule.warmup_epochs
            advice = (
                f"switch_epoch={switch}"
                if switch >= 1
                else f"milestones that end with {self.schedule.decay_epoch}"
            )
            raise ValueError(
                f"the hybrid schedule ends its warm-up at epoch {self.schedule.decay_epoch}, but the last "
                f"learning-rate decay is at {milestones[-1]}; try {advice}"
            )

    def _apply(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        stage = self.schedule.stage(trainer.current_epoch)
        set_method(pl_module, self.schedule.start if stage == "start" else self._final)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        # A resume in the middle of an epoch does not pass on_train_epoch_start.
        self._apply(trainer, pl_module)

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._apply(trainer, pl_module)
        epoch = trainer.current_epoch
        if epoch == self.schedule.switch_epoch:
            rank_zero_info(f"epoch {epoch}: {self.schedule.start} -> {self._final}")
        stage = STAGES.index(self.schedule.stage(epoch))
        pl_module.log("hybrid_stage", float(stage), on_step=False, on_epoch=True)
