r"""A root by an iteration, with its gradient from an equation instead of the iterates.

The differential of :math:`Q^2 = A` is a Lyapunov equation, :math:`Q\, dQ + dQ\, Q = dA`. The map from dA to
dQ is its own transpose, so the backward solves :math:`Q Y + Y Q = G` for the gradient G of Q, and needs Q
alone. By products (the sign function of a block matrix; Higham, *Functions of Matrices*, 2008, sections 2.4
and 5.3), with :math:`B = Q / |Q|_F` and :math:`C = G / |Q|_F`,

.. math::
    B \leftarrow \tfrac12 B\,(3 I - B^2), \qquad
    C \leftarrow \tfrac12 \left( C (3 I - B^2) - B^2 C + B C B \right) .

In the eigenbasis of Q a step multiplies :math:`C_{ij}` and :math:`b_i + b_j` by the same number, so that
:math:`Y_{ij} = C_{ij} / (b_i + b_j)` after every step, and :math:`C / 2` once all b have come to 1.

A zero eigenvalue never comes there: b stays 0, and :math:`C / 2` would be half of the gradient between it and
the others. The polynomial :math:`b_i + b_j - \tfrac32 b_i b_j` in the place of one half is right for values
of 1 and 0 alike (and 0 between two zeros, along changes that keep the rank).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .checks import checked_like_forward, is_watched
from .differentiation import Differentiable, apply, hermitian_part, remember
from .iterations import newton_schulz
from .precision import without_autocast

__all__ = ["implicit_root"]


def _solve(Q: Tensor, G: Tensor, iterations: int) -> Tensor:
    """``Y`` with ``Q Y + Y Q = G``, for the symmetric part of G."""
    norm = torch.linalg.matrix_norm(Q, keepdim=True)
    norm = torch.where(norm == 0, 1, norm)
    B, C = Q / norm, hermitian_part(G) / norm
    for _ in range(iterations):
        square = B @ B
        BC = B @ C
        # C is symmetric, so that C B^2 is the transpose of B^2 C.
        bent = square @ C
        B, C = 1.5 * B - 0.5 * (B @ square), 1.5 * C - 0.5 * (bent + bent.mH - BC @ B)
    BC = B @ C
    return BC + BC.mH - 1.5 * (BC @ B)


class _ImplicitRoot(Differentiable):
    saves_outputs = True

    @staticmethod
    def forward(A: Tensor, iterations: int) -> Tensor:
        return newton_schulz(A, iterations).root

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.iterations = inputs[1]
        remember(ctx, output)

    @staticmethod
    @checked_like_forward
    @without_autocast
    def backward(ctx: Any, G: Tensor | None) -> tuple[Tensor | None, None]:
        if G is None:
            return None, None
        (Q,) = ctx.saved_tensors
        return _solve(Q, G, ctx.iterations), None

    @staticmethod
    def tangent(ctx: Any, saved: Any, dA: Tensor, *_: None) -> Tensor:
        return _solve(saved[0], dA, ctx.iterations)


@without_autocast
def implicit_root(A: Tensor, iterations: int = 15) -> Tensor:
    r"""The root of :func:`newton_schulz`, with the gradient of the exact root at that value.

    Nothing but the root is kept for the backward, however many iterations there are. After enough of them (an
    eigenvalue of a share x of the trace needs some :math:`\log_{1.5} x^{-1/2}`) both are exact; before, the
    gradient is not that of the iteration. Where A is singular, rounding errors of its null space grow by 9/4
    per iteration: 15 leave eleven digits of float64, and 30 leave six.

    Args:
        A: positive semi-definite matrices ``(..., n, n)``, symmetric or complex Hermitian; not checked.
        iterations: of the root, and of the equation in the backward.

    >>> A = torch.eye(2).requires_grad_()  # a tie
    >>> implicit_root(A)[0, 1].backward()
    >>> A.grad
    tensor([[0.0000, 0.2500],
            [0.2500, 0.0000]])
    """
    if not is_watched(A):
        return newton_schulz(A, iterations).root
    root: Tensor = apply(_ImplicitRoot, A, iterations)
    return root
