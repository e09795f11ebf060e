"""Stable, fast, differentiable spectral layers for PyTorch."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import linalg, nn

__version__ = "0.2.0"

__all__ = ["__version__", "linalg", "nn"]


def __getattr__(name: str) -> ModuleType:
    """Import ``rootpool.linalg`` and ``rootpool.nn`` at first use: the command line often needs no torch."""
    if name in ("linalg", "nn"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
