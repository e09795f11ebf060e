"""Lightning's Trainer with what is the same for training, evaluation and replay."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as pl

from .quiet import quiet_lightning

__all__ = ["make_trainer"]


def make_trainer(**options: Any) -> pl.Trainer:
    """A Trainer that leaves sampling to us and advertises nothing."""
    with quiet_lightning():
        return pl.Trainer(
            **options,
            use_distributed_sampler=False,  # ours neither pads nor depends on the number of processes
            enable_model_summary=False,
        )
