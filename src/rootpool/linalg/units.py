"""The one unit that is exact to divide by and to multiply with."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["power_of_two"]


def power_of_two(x: Tensor) -> Tensor:
    """The largest power of two that is at most ``x``, entry by entry, for ``x > 0``; 1/2 for 0.

    It is always within the range of the dtype, and its reciprocal is not always: divide by it.
    """
    return torch.ldexp(torch.ones_like(x), torch.frexp(x).exponent - 1)
