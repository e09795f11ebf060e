"""Matrix products whose derivatives stay out of autocast, as the products themselves do."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from .checks import needs_grad
from .differentiation import Differentiable, add, apply, remember
from .precision import is_inside_autocast, no_autocast

__all__ = ["product"]


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
            g_A, g_B = guarded_product(G, B.mH), guarded_product(A.mH, G)
        return g_A.sum_to_size(A.shape), g_B.sum_to_size(B.shape)

    @staticmethod
    def tangent(
        ctx: Any, saved: tuple[Tensor, ...], dA: Tensor | None, dB: Tensor | None
    ) -> Tensor | None:
        A, B = saved
        left = None if dA is None else guarded_product(dA, B)
        right = None if dB is None else guarded_product(A, dB)
        return add(left, right)


def guarded_product(A: Tensor, B: Tensor) -> Tensor:
    """``A @ B``, whose derivatives are not cast by autocast, wherever the backward runs."""
    result: Tensor = apply(_Product, A, B) if needs_grad(A, B) else A @ B
    return result


def product(A: Tensor, B: Tensor) -> Tensor:
    """``A @ B`` inside a function that was called in autocast, and runs outside of it.

    Its backward runs wherever users call it. If that is inside autocast, torch would multiply in half
    precision there. Elsewhere this is the plain product, for speed and for programs that are exported.
    """
    return guarded_product(A, B) if is_inside_autocast() else A @ B
