"""Keep autocast out of spectral functions: they work in float32 or wider."""

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

    Matrix products in half precision would lose every small eigenvalue. Where autocast is off, nothing
    is cast, and half precision is an error of the caller.
    """

    @functools.wraps(function)
    def wrapped(*args: object, **kwargs: object) -> object:
        # A list, because the compiler of torch 2.8 does not know next(generator, default).
        devices = [a.device.type for a in (*args, *kwargs.values()) if isinstance(a, Tensor)]
        device = devices[0] if devices else "cpu"
        if not torch.is_autocast_enabled(device):
            return function(*args, **kwargs)
        with torch.autocast(device, enabled=False):
            return function(*map(_widened, args), **{k: _widened(a) for k, a in kwargs.items()})

    return wrapped  # type: ignore[return-value]
