"""The Trainer options that training, evaluation and replay share."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as pl

from .failures import explained_deaths
from .quiet import quiet_lightning

__all__ = ["make_trainer"]


def make_trainer(**options: Any) -> pl.Trainer:
    """A Trainer that leaves sampling to our loaders and prints no advertisements."""
    with quiet_lightning(), explained_deaths():
        return pl.Trainer(
            **options,
            use_distributed_sampler=False,  # ours does not pad and does not depend on the number of processes
            enable_model_summary=False,
        )
