"""How close is close: in units of rounding, which every CPU keeps. Bits depend on the CPU."""

from __future__ import annotations

import torch
from torch import Tensor

# As in LAPACK's own tests: a backward stable algorithm stays below some 30 times n eps, whatever the
# order in which a machine adds; errors of a formula are larger by orders of magnitude.
ROUNDINGS = 30


def allowed(dtype: torch.dtype, n: int, condition: float = 1.0) -> float:
    """Relative error that rounding explains for n x n matrices and a problem of that condition."""
    return ROUNDINGS * max(n, 1) * torch.finfo(dtype).eps * condition


def assert_same_to_rounding(
    got: Tensor, expected: Tensor, n: int | None = None, condition: float = 1.0
) -> None:
    """Assert that two results of the same problem differ by rounding alone, relative to the largest entry.

    ``n`` is the side of the matrices behind them (default: their last dimension). Items of a batch at
    different scales have to be compared one by one.
    """
    assert got.shape == expected.shape
    assert got.dtype == expected.dtype
    if got.numel() == 0:
        return
    n = got.shape[-1] if n is None else n
    error, size = (got - expected).abs().max(), expected.abs().max()
    limit = allowed(got.dtype, n, condition) * size
    assert error <= limit, f"differ by {error:.3g}, rounding explains {limit:.3g}"
