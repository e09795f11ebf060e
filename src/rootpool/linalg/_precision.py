"""Autocast: spectral functions work in float32 or wider, like torch's own list of float32 ops."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

__all__ = ["without_autocast"]

F = TypeVar("F", bound=Callable[..., object])


def _widened(value: object) -> object:
    half = isinstance(value, Tensor) and value.dtype in (torch.float16, torch.bfloat16)
    return value.float() if isinstance(value, Tensor) and half else value


def without_autocast(function: F) -> F:
    """Run ``function`` outside autocast; half-precision tensors come in as float32.

    Matrix products of a spectral function in half precision would lose every small eigenvalue.
    Without autocast nothing is cast: half precision then is an error of the caller.
    """

    @functools.wraps(function)
    def wrapped(*args: object, **kwargs: object) -> object:
        tensors = (a for a in (*args, *kwargs.values()) if isinstance(a, Tensor))
        device = next((a.device.type for a in tensors), "cpu")
        if not torch.is_autocast_enabled(device):
            return function(*args, **kwargs)
        with torch.autocast(device, enabled=False):
            return function(*map(_widened, args), **{k: _widened(a) for k, a in kwargs.items()})

    return wrapped  # type: ignore[return-value]
