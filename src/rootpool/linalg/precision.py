"""Keep autocast out of spectral functions: they work in float32 or wider."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TypeVar

import torch
from torch import Tensor

from ._private import any_autocast

__all__ = [
    "autocast_is_on",
    "input_rounding",
    "is_inside_autocast",
    "no_autocast",
    "without_autocast",
]

F = TypeVar("F", bound=Callable[..., object])
HALF = (torch.float16, torch.bfloat16)
_inside: ContextVar[bool] = ContextVar("rootpool_inside_autocast", default=False)


def autocast_is_on(device: torch.device) -> bool:
    """Whether autocast is on for a device; torch has no answer for ``meta``, where nothing is computed."""
    return device.type != "meta" and torch.is_autocast_enabled(device.type)


def no_autocast(device: torch.device) -> contextlib.AbstractContextManager[object]:
    """A context without autocast on a device."""
    if device.type == "meta":
        return contextlib.nullcontext()
    if torch.compiler.is_compiling() or not autocast_is_on(device):
        return torch.autocast(device.type, enabled=False)
    return _left(device)


@contextlib.contextmanager
def _left(device: torch.device) -> Iterator[None]:
    token = _inside.set(True)
    try:
        with torch.autocast(device.type, enabled=False):
            yield
    finally:
        _inside.reset(token)


def is_inside_autocast() -> bool:
    """Whether :func:`no_autocast` has switched something off around us; never in a compiled function."""
    return not torch.compiler.is_compiling() and _inside.get()


def _widened(value: object) -> object:
    """A half-precision tensor as float32; anything else as it is."""
    return value.float() if isinstance(value, Tensor) and value.dtype in HALF else value


def input_rounding(A: object) -> float:
    """The rounding unit of a half-precision tensor that is about to be widened; 0 for any other."""
    return torch.finfo(A.dtype).eps if isinstance(A, Tensor) and A.dtype in HALF else 0.0


def without_autocast(function: F) -> F:
    """Run ``function`` outside autocast; half-precision tensors come in as float32.

    Matrix products in half precision would lose every small eigenvalue. Where autocast is off, nothing
    is cast, and half precision is an error of the caller.
    """

    @functools.wraps(function)
    def wrapped(*args: object, **kwargs: object) -> object:
        if not any_autocast():  # nearly always, and quick to ask
            return function(*args, **kwargs)
        for value in (*args, *kwargs.values()):
            if isinstance(value, Tensor):  # the first one decides for all
                if not autocast_is_on(value.device):
                    break
                with no_autocast(value.device):
                    widened = {name: _widened(a) for name, a in kwargs.items()}
                    return function(*map(_widened, args), **widened)
        return function(*args, **kwargs)

    return wrapped  # type: ignore[return-value]
