"""The fused root of a method with trainable parameters: gradients to the features and to them.

First derivatives in reverse mode, also under ``torch.compile``. Forward mode and ``torch.vmap`` take the
slower way, by covariances. Second derivatives are not implemented.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rootpool.linalg import to_triangle
from rootpool.linalg.checks import is_plain
from rootpool.linalg.differentiation import is_mapped

from .covariance import covariance, widened
from .fused import allocate, decoded, encoded, root, root_gradient
from .learned import ONCE
from .spectral_roots import SpectralRoot

__all__ = ["learned_root"]


def _forward(
    X: Tensor, theta: Tensor, method: SpectralRoot, dtype: torch.dtype, output: str, save: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return root(X, method.at(theta.detach().to(dtype)), dtype, dtype, output, save)


def _backward(
    g: Tensor, theta: Tensor, W: Tensor, K: Tensor, s: Tensor, method: SpectralRoot
) -> tuple[Tensor, Tensor]:
    tuned = method.at(theta.detach().to(W.dtype))
    gradient, by_map = root_gradient(g, W, K, s, tuned, len(theta))
    return gradient, by_map.sum(0).to(theta.dtype)


# --------------------------------------------------------------------------------------------------
# Operators for tracers


@torch.library.custom_op("rootpool::learned_root", mutates_args=())
def _forward_op(
    X: Tensor, theta: Tensor, method: str, dtype: torch.dtype, output: str, save: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return _forward(X, theta, decoded(method), dtype, output, save)


@torch.library.custom_op("rootpool::learned_root_backward", mutates_args=())
def _backward_op(
    g: Tensor, theta: Tensor, W: Tensor, K: Tensor, s: Tensor, method: str
) -> tuple[Tensor, Tensor]:
    return _backward(g, theta, W, K, s, decoded(method))


@_forward_op.register_fake
def _(
    X: Tensor, theta: Tensor, method: str, dtype: torch.dtype, output: str, save: bool
) -> tuple[Tensor, ...]:
    return allocate(X, dtype, dtype, output, save)


@_backward_op.register_fake
def _(
    g: Tensor, theta: Tensor, W: Tensor, K: Tensor, s: Tensor, method: str
) -> tuple[Tensor, Tensor]:
    return g.new_empty(W.shape[0], W.shape[1], K.shape[2]), torch.empty_like(theta)


# --------------------------------------------------------------------------------------------------
# Automatic differentiation. ``method`` is text while torch.compile traces, which takes no objects.


class _LearnedRoot(torch.autograd.Function):
    @staticmethod
    def forward(
        X: Tensor, theta: Tensor, method: SpectralRoot | str, dtype: torch.dtype, output: str
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        if isinstance(method, SpectralRoot) and is_plain(X):
            return _forward(X, theta, method, dtype, output, True)
        out, W, K, s = _forward_op(X, theta, encoded(method), dtype, output, True)
        return out, W, K, s

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        X, theta, ctx.method, *_ = inputs
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(X, theta, *output[1:])

    @staticmethod
    def backward(ctx: Any, g: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        if g is None:
            return None, None, None, None, None
        X, theta, W, K, s = ctx.saved_tensors
        return *_LearnedGradients.apply(X, theta, g, W, K, s, ctx.method), None, None, None


class _LearnedGradients(torch.autograd.Function):
    """The backward. ``X`` is an input only so that a second derivative meets the refusal below."""

    @staticmethod
    def forward(
        X: Tensor,
        theta: Tensor,
        g: Tensor,
        W: Tensor,
        K: Tensor,
        s: Tensor,
        method: SpectralRoot | str,
    ) -> tuple[Tensor, Tensor]:
        if isinstance(method, SpectralRoot) and is_plain(g):
            return _backward(g, theta, W, K, s, method)
        to_features, to_parameters = _backward_op(g, theta, W, K, s, encoded(method))
        return to_features, to_parameters

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> tuple[None, ...]:
        raise RuntimeError(ONCE)


def learned_root(
    X: Tensor, method: SpectralRoot, dtype: torch.dtype, output: str, theta: Tensor
) -> Tensor:
    """Filtered covariances of features ``(B, C, N)``, with the gradients to features and parameters.

    Args:
        X: features with at least one channel and one position.
        method: a learned filter; under tracers it must be registered.
        dtype: what to compute in.
        output: ``"triangle"`` or ``"matrix"``.
        theta: the parameters of the method, ``(k,)``.
    """
    if is_mapped(X, theta):
        Q = method.at(theta.to(dtype))(covariance(widened(X, dtype)))
        return (Q if output == "matrix" else to_triangle(Q)).to(X.dtype)
    differentiated = torch.is_grad_enabled() and (X.requires_grad or theta.requires_grad)
    if is_plain(X) and not differentiated:
        return _forward(X, theta, method, dtype, output, False)[0]
    described = encoded(method) if torch.compiler.is_compiling() else method
    result: Tensor = _LearnedRoot.apply(X, theta, described, dtype, output)[0]
    return result
