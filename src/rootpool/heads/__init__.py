"""Heads on frozen features: the features are computed once and kept, the heads train in minutes."""

from .head import Branch, Head, Schedule, predict, train_head
from .study import Examples, HeadResult, hold_out, run_heads

__all__ = [
    "Branch",
    "Examples",
    "Head",
    "HeadResult",
    "Schedule",
    "hold_out",
    "predict",
    "run_heads",
    "train_head",
]
