"""Heads on frozen features: the features are computed once and kept, the heads train in minutes."""

from .cache import FeatureCache, open_cache
from .extract import Views, cache_features
from .head import Branch, Head, Schedule, predict, train_head
from .study import Examples, HeadResult, hold_out, run_heads

__all__ = [
    "Branch",
    "Examples",
    "FeatureCache",
    "Head",
    "HeadResult",
    "Schedule",
    "Views",
    "cache_features",
    "hold_out",
    "open_cache",
    "predict",
    "run_heads",
    "train_head",
]
