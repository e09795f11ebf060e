"""Stable, fast, differentiable spectral layers for PyTorch."""

from . import linalg, nn

__version__ = "0.1.0"

__all__ = ["__version__", "linalg", "nn"]
