"""Matrices and numbers that several statements use."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from rootpool.analysis import Record

__all__ = ["normal", "numbers", "orthogonal", "relative_error"]


def normal(*shape: int, seed: int = 0) -> Tensor:
    """Normally distributed numbers in float64, the same for the same seed."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def orthogonal(n: int, seed: int = 0) -> Tensor:
    """A random orthogonal matrix ``(n, n)``."""
    return torch.linalg.qr(normal(n, n, seed=seed))[0]


def relative_error(got: Tensor, expected: Tensor) -> float:
    """Norm of the difference over the norm of the expected value."""
    return float((got - expected).norm() / expected.norm())


def numbers(records: Iterable[Record], key: str, **where: object) -> list[float]:
    """The numbers under a key, of the records that have the given values."""
    chosen = (r[key] for r in records if all(r[k] == v for k, v in where.items()))
    return [v for v in chosen if isinstance(v, int | float)]
