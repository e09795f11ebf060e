"""Stable, fast, differentiable spectral layers for PyTorch."""

__version__ = "0.1.0"
