"""Keep autocast out of spectral functions, which work in float32 or wider, and out of their derivatives."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, TypeVar

import torch
from torch import Tensor

from ._private import any_autocast
from .checks import needs_grad
from .differentiation import Differentiable, add, apply, remember

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


# --------------------------------------------------------------------------------------------------
# Matrix products whose derivatives stay out of autocast, as the products themselves do


class _Product(Differentiable):
    @staticmethod
    def forward(A: Tensor, B: Tensor) -> Tensor:
        return A @ B

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        remember(ctx, *inputs)

    @staticmethod
    def backward(ctx: Any, G: Tensor | None) -> tuple[Tensor | None, ...]:
        if G is None:
            return None, None
        A, B = ctx.saved_tensors
        with no_autocast(G.device):  # and nothing widened: factors in half precision stay so
            g_A, g_B = _guarded_product(G, B.mH), _guarded_product(A.mH, G)
        return g_A.sum_to_size(A.shape), g_B.sum_to_size(B.shape)

    @staticmethod
    def tangent(
        ctx: Any, saved: tuple[Tensor, ...], dA: Tensor | None, dB: Tensor | None
    ) -> Tensor | None:
        A, B = saved
        left = None if dA is None else _guarded_product(dA, B)
        right = None if dB is None else _guarded_product(A, dB)
        return add(left, right)


def _guarded_product(A: Tensor, B: Tensor) -> Tensor:
    """``A @ B``, whose derivatives are not cast by autocast, wherever the backward runs."""
    result: Tensor = apply(_Product, A, B) if needs_grad(A, B) else A @ B
    return result


def product(A: Tensor, B: Tensor) -> Tensor:
    """``A @ B`` inside a function that was called in autocast, and runs outside of it.

    Its backward runs wherever users call it. If that is inside autocast, torch would multiply in half
    precision there. Elsewhere this is the plain product, for speed and for programs that are exported.
    """
    return _guarded_product(A, B) if is_inside_autocast() else A @ B
