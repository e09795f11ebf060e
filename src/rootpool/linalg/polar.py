r"""Polar factors and nearest rotations: gradients that divide by sums of singular values, never by gaps.

With :math:`A = U S V^T` and :math:`Q = U V^T`, the matrix :math:`H = Q^T A = V S V^T` is symmetric.
Differentiating :math:`A = Q H` and taking the antisymmetric part of :math:`Q^T dA` gives a Lyapunov
equation for :math:`\Omega = Q^T dQ`,

.. math:: H \Omega + \Omega H = Q^T dA - dA^T Q, \qquad
          dQ = Q\, \Omega + (I - Q Q^T)\, dA\, H^{-1}

(for at least as many rows as columns; otherwise transpose). In the basis V the solution divides by
:math:`s_i + s_j`. The map is its own transpose, so it is the backward as well. Everything in it is a
differentiable function of A, Q and the direction, and the derivative of a Lyapunov solution is again
a Lyapunov solution, so higher derivatives are exact, too.

The nearest rotation replaces U by U D with :math:`D = \mathrm{diag}(1, \dots, 1, \pm 1)`, such that
the determinant is 1: then :math:`H = V D S V^T`, the smallest singular value may get a sign, and
nothing else changes (Umeyama 1991).

Reference: Higham, *Functions of Matrices*, 2008, chapter 8.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.linalg import LinAlgError

from .checks import (
    check_matrix,
    check_range,
    check_square,
    checked_like_forward,
    checks_enabled,
    first_index,
    may_check,
    name_item,
)
from .decompose import roundoff, svd_forward
from .differentiation import mode_for
from .precision import without_autocast

__all__ = ["Polar", "orthogonalize", "polar", "rotation", "turned"]

_ADVICE = "scale the matrices, or keep their small singular values away from zero"


class Polar(NamedTuple):
    """``A = Q @ H``: ``Q`` ``(..., m, n)`` orthonormal, ``H`` ``(..., n, n)`` semi-definite."""

    Q: Tensor
    H: Tensor


def _symmetric_part(A: Tensor) -> Tensor:
    return (A + A.mT) / 2


def _skew_part(A: Tensor) -> Tensor:
    return (A - A.mT) / 2


# --------------------------------------------------------------------------------------------------
# Lyapunov equations in a known basis


class _Lyapunov(torch.autograd.Function):
    """``(H, C) -> Y`` with ``H Y + Y H = C``; ``H`` stands only for its derivative.

    ``V`` are the eigenvectors of H, and ``R`` the reciprocal sums of its eigenvalues, 0 where both are
    zero. The derivative with respect to H needs a regular H, which ``owner`` names in the error; with
    an empty name it is taken for granted.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(H: Tensor, R: Tensor, V: Tensor, C: Tensor, owner: str) -> Tensor:
        return V @ (R * (V.mT @ C @ V)) @ V.mT

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        H, R, V, _, ctx.owner = inputs
        ctx.save_for_backward(H, R, V, output)
        ctx.save_for_forward(H, R, V, output)

    @staticmethod
    def backward(ctx: Any, W: Tensor) -> tuple[Tensor | None, ...]:
        H, R, V, Y = ctx.saved_tensors
        Z = _lyapunov(H, R, V, W, ctx.owner)
        if not ctx.needs_input_grad[0]:
            return None, None, None, Z, None
        g_H = -(Z @ Y.mT + Y.mT @ Z)
        return _only_regular(g_H, R, ctx.owner), None, None, Z, None


class _LyapunovForward(_Lyapunov):
    @staticmethod
    def jvp(ctx: Any, dH: Tensor | None, dR: None, dV: None, dC: Tensor | None, _: None) -> Tensor:
        H, R, V, Y = ctx.saved_tensors
        total = torch.zeros_like(Y) if dC is None else dC
        if dH is not None:
            total = total - _only_regular(dH @ Y + Y @ dH, R, ctx.owner)
        return _lyapunov(H, R, V, total, ctx.owner)


def _lyapunov(H: Tensor, R: Tensor, V: Tensor, C: Tensor, owner: str) -> Tensor:
    solution: Tensor = mode_for(_Lyapunov, _LyapunovForward).apply(H, R, V, C, owner)
    return solution


def _only_regular(value: Tensor, R: Tensor, owner: str) -> Tensor:
    """``value``, unless ``R`` has dropped a pair of zeros: an error then, or NaN where nobody can look."""
    if not owner:
        return value
    singular = (R == 0).flatten(-2).any(-1)
    if may_check(singular) and bool(singular.any()):
        raise LinAlgError(
            f"{owner} has no second derivative at {name_item(first_index(singular))}, whose rank is "
            "not full; add a small matrix to it"
        )
    return torch.where(singular[..., None, None], torch.nan, value)


# --------------------------------------------------------------------------------------------------
# The nearest matrix, and its derivative


class _Nearest(torch.autograd.Function):
    """``A -> Q`` for at least as many rows as columns; ``R`` and ``V`` come along for the derivative."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        A: Tensor, proper: bool, solver_device: str | torch.device | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        U, s, Vh = svd_forward(A, False, solver_device)
        n = s.shape[-1]
        level = roundoff(s)
        if not proper:
            s = torch.where(s <= level, 0, s)
            sums = s.unsqueeze(-1) + s.unsqueeze(-2)
            R = torch.where(sums == 0, 0, 1 / torch.where(sums == 0, 1, sums))
            return (U * (s > 0).unsqueeze(-2)) @ Vh, R, Vh.mT.contiguous()
        last = torch.arange(n, device=s.device) == n - 1
        sign = torch.where(torch.linalg.det(U @ Vh) < 0, -1.0, 1.0).to(s.dtype)
        signs = torch.where(last, sign.unsqueeze(-1), 1)
        t = s * signs
        sums = t.unsqueeze(-1) + t.unsqueeze(-2)
        # An antisymmetric matrix has no diagonal; a sum at round-off is a rotation that is not unique.
        R = torch.where(sums <= level.unsqueeze(-1), torch.inf, 1 / sums).tril(-1)
        return (U * signs.unsqueeze(-2)) @ Vh, R + R.mT, Vh.mT.contiguous()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        A, ctx.proper, _ = inputs
        Q, R, V = output
        ctx.checked = checks_enabled()
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(R, V)
        ctx.save_for_backward(A, Q, R, V)
        ctx.save_for_forward(A, Q, R, V)

    @staticmethod
    @checked_like_forward
    @without_autocast
    def backward(ctx: Any, G: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        if G is None:
            return None, None, None
        A, Q, R, V = ctx.saved_tensors
        return _derivative(A, Q, R, V, G, ctx.proper), None, None


class _NearestForward(_Nearest):
    @staticmethod
    @checked_like_forward
    @without_autocast
    def jvp(ctx: Any, dA: Tensor, *_: None) -> tuple[Tensor | None, ...]:
        A, Q, R, V = ctx.saved_tensors
        return _derivative(A, Q, R, V, dA, ctx.proper), None, None


def _derivative(A: Tensor, Q: Tensor, R: Tensor, V: Tensor, G: Tensor, proper: bool) -> Tensor:
    if proper:
        _check_unique(R)
    owner = "" if proper else "the polar factor"
    H = _symmetric_part(Q.mT @ A)
    C = Q.mT @ G
    turn = _skew_part(_lyapunov(H, R, V, C - C.mT, owner))
    derivative = Q @ turn
    if not proper:
        identity = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device).expand_as(H)
        inverse = 2 * _lyapunov(H, R, V, identity, owner)
        outside = (G - Q @ C) @ inverse
        if A.shape[-2] == A.shape[-1]:  # then nothing but rounding is outside a factor of full rank
            outside = torch.where((R == 0).flatten(-2).any(-1)[..., None, None], outside, 0)
        derivative = derivative + outside
    what = "the derivative of the rotation" if proper else "the derivative of the polar factor"
    check_range(derivative, what, G, advice=_ADVICE)
    return derivative


def _check_unique(R: Tensor) -> None:
    if not may_check(R):  # then the derivative is infinite or NaN
        return
    singular = R.isinf().flatten(-2).any(-1)
    if bool(singular.any()):
        raise LinAlgError(
            f"the nearest rotation to {name_item(first_index(singular))} is not unique, so it has no "
            "derivative: its two smallest singular values are equal and its determinant is "
            "negative, or both are zero; keep such matrices out of the loss"
        )


def _nearest(A: Tensor, proper: bool, solver_device: str | torch.device | None) -> Tensor:
    if A.shape[-2] < A.shape[-1]:
        return _nearest(A.mT, proper, solver_device).mT
    nearest: Tensor = mode_for(_Nearest, _NearestForward).apply(A, proper, solver_device)[0]
    return nearest


def turned(A: Tensor, dA: Tensor) -> tuple[Tensor, Tensor]:
    """The polar factor of ``A`` ``(..., m, n)`` and its derivative along ``dA``, to differentiate on."""
    if A.shape[-2] < A.shape[-1]:
        Q, dQ = turned(A.mT, dA.mT)
        return Q.mT, dQ.mT
    Q, R, V = mode_for(_Nearest, _NearestForward).apply(A, False, None)
    return Q, _derivative(A, Q, R, V, dA, False)


# --------------------------------------------------------------------------------------------------
# For users


@without_autocast
def orthogonalize(A: Tensor, *, solver_device: str | torch.device | None = None) -> Tensor:
    r"""The orthogonal polar factor :math:`Q = U V^T` of ``A``, the nearest matrix with orthonormal columns.

    (With orthonormal rows, if there are fewer rows than columns.) The derivative is

    .. math:: dQ = U \left[ \frac{(X - X^T)_{ij}}{s_i + s_j} \right] V^T
              + (I - U U^T)\, dA\, V S^{-1} V^T + U S^{-1} U^T dA\, (I - V V^T),
              \qquad X = U^T dA\, V.

    It divides by no gap: equal singular values are ordinary. Where the rank is not full (singular
    values at round-off level, ``2 sqrt(k) eps max(s)``, count as zeros) the factor is that of the
    canonical polar decomposition, a partial isometry that is zero on the null space of ``A``. There
    the factor is not continuous, and the derivative is taken along changes that keep the rank.
    Derivatives of every order are exact; from the second on they need full rank.

    Args:
        A: matrices ``(..., m, n)`` of any shape, float32 or float64.
        solver_device: where to decompose, as in :func:`eigh`.

    Returns:
        ``Q`` ``(..., m, n)``.

    Reference: Higham, *Functions of Matrices*, 2008, chapter 8.

    >>> A = (2 * torch.eye(3)).requires_grad_()  # three equal singular values
    >>> orthogonalize(A)[0, 1].backward()
    >>> A.grad[0]
    tensor([0.0000, 0.2500, 0.0000])
    """
    check_matrix(A, "orthogonalize")
    return _nearest(A, False, solver_device)


@without_autocast
def polar(A: Tensor, *, solver_device: str | torch.device | None = None) -> Polar:
    r"""Polar decomposition :math:`A = Q H` of matrices of any shape and rank.

    :math:`Q` is :func:`orthogonalize` of ``A``, with its derivative and its conventions where the rank
    is not full. :math:`H = Q^T A = (A^T A)^{1/2}` is symmetric, positive semi-definite and unique.

    Args:
        A: matrices ``(..., m, n)``, float32 or float64.
        solver_device: where to decompose, as in :func:`eigh`.

    Returns:
        ``Q`` ``(..., m, n)`` and ``H`` ``(..., n, n)``.

    >>> Q, H = polar(torch.tensor([[0.0, -2.0], [3.0, 0.0]]))
    >>> Q.round().long(), H.round().long()
    (tensor([[ 0, -1],
            [ 1,  0]]), tensor([[3, 0],
            [0, 2]]))
    """
    check_matrix(A, "polar")
    Q = _nearest(A, False, solver_device)
    return Polar(Q, _symmetric_part(Q.mT @ A))


@without_autocast
def rotation(A: Tensor, *, solver_device: str | torch.device | None = None) -> Tensor:
    r"""The rotation nearest to ``A``: :math:`R = U D V^T` with determinant 1 (Procrustes, Kabsch).

    It maximises :math:`\mathrm{tr}(R^T A)`. For points :math:`x_i, y_i` around their means, stacked as
    rows of ``X`` and ``Y``, ``rotation(Y.mT @ X)`` is the R that makes :math:`\sum |R x_i - y_i|^2`
    least. With :math:`t = (s_1, \dots, s_{n-1}, \pm s_n)`, the sign being that of the determinant,

    .. math:: dR = U D \left[ \frac{(X - X^T)_{ij}}{t_i + t_j} \right] V^T, \qquad X = D U^T dA\, V.

    So points in a plane (one singular value zero) and regular bodies (all equal) are ordinary. The
    problem itself is singular where :math:`t_{n-1} + t_n = 0`: the two smallest singular values are
    zero, or they are equal and the determinant is negative. There several rotations are equally
    near; one of them is returned, and its derivative is an error.

    Args:
        A: matrices ``(..., n, n)``, float32 or float64.
        solver_device: where to decompose, as in :func:`eigh`.

    Returns:
        ``R`` ``(..., n, n)``, orthogonal with determinant 1. Derivatives of every order are exact.

    Raises:
        torch.linalg.LinAlgError: in the backward, where the nearest rotation is not unique to working
            precision (not under ``torch.compile`` and ``torch.func``: there it is infinite or NaN).

    References: Kabsch, Acta Crystallographica A32, 1976; Umeyama, IEEE PAMI 13(4), 1991.

    >>> rotation(torch.diag(torch.tensor([3.0, 2.0, -1.0]))).diagonal()
    tensor([1., 1., 1.])
    """
    check_square(A, "rotation")
    return _nearest(A, True, solver_device)
