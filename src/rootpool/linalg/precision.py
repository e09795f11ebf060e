"""Autocast: spectral functions work in float32 or wider, like torch's own list of float32 ops."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

__all__ = ["without_autocast"]

F = TypeVar("F", bound=Callable[..., object])


def without_autocast(function: F) -> F:
    """Run ``function`` outside autocast; half-precision tensors come in as float32.

    Matrix products of a spectral function in half precision would lose every small eigenvalue.
    Without autocast nothing is cast: half precision then is an error of the caller.
    """

    @functools.wraps(function)
    def wrapped(*args: object, **kwargs: object) -> object:
        device = next((a.device.type for a in args if isinstance(a, Tensor)), "cpu")
        if not torch.is_autocast_enabled(device):
            return function(*args, **kwargs)
        half = (torch.float16, torch.bfloat16)
        args = tuple(a.float() if isinstance(a, Tensor) and a.dtype in half else a for a in args)
        with torch.autocast(device, enabled=False):
            return function(*args, **kwargs)

    return wrapped  # type: ignore[return-value]
