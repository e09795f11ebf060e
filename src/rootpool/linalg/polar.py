r"""Polar factors and nearest rotations: derivatives that divide by sums of singular values, never by gaps.

With :math:`A = U S V^H` and :math:`Q = U V^H`, the matrix :math:`H = Q^H A = V S V^H` is Hermitian.
Differentiating :math:`A = Q H` and taking the antihermitian part of :math:`Q^H dA` gives a Lyapunov
equation for :math:`\Omega = Q^H dQ`,

.. math:: H \Omega + \Omega H = Q^H dA - dA^H Q, \qquad
          dQ = Q\, \Omega + (I - Q Q^H)\, dA\, H^{-1}

(for at least as many rows as columns; otherwise transpose). In the basis V the solution divides by
:math:`s_i + s_j`. The map is its own transpose, so it is the backward as well, and its derivative serves
both modes. That follows by the product rule from the derivatives of Q, of
:math:`dH = Q^H dA - \Omega H`, and of the solution of a Lyapunov equation, which is again one.

The nearest rotation replaces U by U D with :math:`D = \mathrm{diag}(1, \dots, 1, \pm 1)`, such that
the determinant is 1: then :math:`H = V D S V^T`, the smallest singular value may get a sign, and
nothing else changes (Umeyama 1991).

Reference: Higham, *Functions of Matrices*, 2008, chapter 8.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.linalg import LinAlgError

from .checks import bad_item, can_read_values, check_matrix, check_range, check_square
from .decompose import all_above_roundoff, roundoff, svd_forward
from .differentiation import hermitian_part
from .precision import without_autocast
from .products import product
from .rotations import rotation_factors
from .smooth import Factors, Smooth, differentiable, differentiable_tall

__all__ = ["Nearest", "Polar", "orthogonalize", "polar", "rotation"]

_ADVICE = "scale the matrices, or keep their small singular values away from zero"


class Polar(NamedTuple):
    """``A = Q @ H``: ``Q`` ``(..., m, n)`` orthonormal, ``H`` ``(..., n, n)`` semi-definite."""

    Q: Tensor
    H: Tensor


# --------------------------------------------------------------------------------------------------
# The nearest matrix, and its derivatives


@dataclass(frozen=True)
class Nearest(Smooth):
    """``A -> Q`` for at least as many rows as columns.

    The factors are ``U`` with its sign, singular values ``t`` with theirs, and ``V``. Where the rank is
    not full, the columns of U and the singular values at round-off level are zero.
    """

    proper: bool
    solver_device: str | torch.device | None = None

    @property
    def name(self) -> str:
        return "the nearest rotation" if self.proper else "the polar factor"

    def value(self, A: Tensor) -> tuple[Tensor, ...]:
        if self.proper:
            return rotation_factors(A, self.solver_device)
        U, s, Vh = svd_forward(A, False, self.solver_device)
        if not (can_read_values(s) and all_above_roundoff(s)):
            kept = (s > roundoff(s)).to(s.dtype)
            U, s = U * kept.unsqueeze(-2), s * kept
        return U @ Vh, U, s, Vh.mH.resolve_conj().contiguous()

    def like_value(self, A: Tensor, factors: Factors) -> Tensor:
        return factors[0]

    def jvp(self, factors: Factors, dA: Tensor) -> Tensor:
        U, t, V = factors
        if self.proper:
            self._check_unique(t)
        change = self._step(U, t, dA @ V)[0] @ V.mH
        check_range(change, f"the derivative of {self.name}", dA, advice=_ADVICE)
        return change

    vjp = jvp

    def jvp_of_jvp(self, factors: Factors, v: Tensor, w: Tensor) -> Tensor:
        U, t, V = factors
        v, w = v @ V, w @ V
        dQ, turn_w, X_w = self._step(U, t, w)
        _, turn_v, X_v = self._step(U, t, v)
        dH = hermitian_part(X_w - turn_w * t.unsqueeze(-2))
        C = dQ.mH @ v
        turned = self._reciprocal_sums(t) * (C - C.mH - dH @ turn_v - turn_v @ dH)
        change = dQ @ turn_v + U @ turned
        if U.shape[-2] > U.shape[-1]:
            inverse = (1 / t).unsqueeze(-2)
            change = change - (dQ @ X_v + U @ C) * inverse
            change = change - ((v - U @ X_v) * inverse) @ (dH * inverse)
        if self.proper:
            self._check_unique(t)
            return change @ V.mH
        return self._only_full_rank(change @ V.mH, t)

    vjp_of_jvp = jvp_of_jvp

    def _step(self, U: Tensor, t: Tensor, dA: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """``dQ``, ``Q^H dQ`` and ``Q^H dA``; all on the right, ``dA`` too, in the basis V."""
        X = U.mH @ dA
        turn = self._reciprocal_sums(t) * (X - X.mH)
        change = U @ turn
        if not self.proper:
            null = t == 0
            if U.shape[-2] == U.shape[-1]:  # outside of full rank there is nothing but rounding
                null = null | ~null.any(-1, keepdim=True)
            inverse = torch.where(null, 0, 1 / torch.where(null, 1, t))
            change = change + (dA - U @ X) * inverse.unsqueeze(-2)
        return change, turn, X

    def _reciprocal_sums(self, t: Tensor) -> Tensor:
        """``1 / (t_i + t_j)``: 0 between two zeros, infinite where the rotation is not unique."""
        sums = t.unsqueeze(-1) + t.unsqueeze(-2)
        if not self.proper:
            return torch.where(sums == 0, 0, 1 / torch.where(sums == 0, 1, sums))
        # An antisymmetric matrix has no diagonal; a sum at round-off is a rotation that is not unique.
        R = torch.where(sums <= roundoff(t).unsqueeze(-1), torch.inf, 1 / sums).tril(-1)
        return R + R.mT

    def _check_unique(self, t: Tensor) -> None:
        if not can_read_values(t):  # then the derivative is infinite or NaN
            return
        if item := bad_item(self._reciprocal_sums(t).isinf().flatten(-2).any(-1)):
            raise LinAlgError(
                f"the nearest rotation to {item} is not unique, so it has no derivative: its two smallest "
                "singular values are equal and its determinant is negative, or both are zero; keep such "
                "matrices out of the loss"
            )

    def _only_full_rank(self, second: Tensor, t: Tensor) -> Tensor:
        """``second``, unless the rank is not full: an error then, or NaN where nobody can look."""
        singular = (t == 0).any(-1)
        if item := bad_item(singular):
            raise LinAlgError(
                f"{self.name} has no second derivative at {item}, whose rank is not full; add a small "
                "matrix to it"
            )
        return torch.where(singular[..., None, None], torch.nan, second)


# --------------------------------------------------------------------------------------------------
# For users


@without_autocast
def orthogonalize(A: Tensor, *, solver_device: str | torch.device | None = None) -> Tensor:
    r"""The orthogonal polar factor :math:`Q = U V^H` of ``A``, the nearest matrix with orthonormal columns.

    (With orthonormal rows, if there are fewer rows than columns.) The derivative is

    .. math:: dQ = U \left[ \frac{(X - X^H)_{ij}}{s_i + s_j} \right] V^H
              + (I - U U^H)\, dA\, V S^{-1} V^H + U S^{-1} U^H dA\, (I - V V^H),
              \qquad X = U^H dA\, V.

    It divides by no gap: equal singular values are ordinary. Where the rank is not full (singular
    values at round-off level, ``2 sqrt(k) eps max(s)``, count as zeros) the factor comes from the
    canonical polar decomposition, a partial isometry that is zero on the null space of ``A``. There
    the factor is not continuous, and the derivative is taken along changes that keep the rank.
    The second derivative is exact as well; it needs full rank.

    Args:
        A: matrices ``(..., m, n)`` of any shape, real or complex, of single or double precision.
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
    return differentiable_tall(Nearest(False, solver_device), A)


@without_autocast
def polar(A: Tensor, *, solver_device: str | torch.device | None = None) -> Polar:
    r"""Polar decomposition :math:`A = Q H` of matrices of any shape and rank.

    :math:`Q` is :func:`orthogonalize` of ``A``, with its derivative and its conventions where the rank
    is not full. :math:`H = Q^H A = (A^H A)^{1/2}` is Hermitian, positive semi-definite and unique.

    Args:
        A: matrices ``(..., m, n)``, real or complex, of single or double precision.
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
    Q = orthogonalize(A, solver_device=solver_device)
    return Polar(Q, hermitian_part(product(Q.mH, A)))


@without_autocast
def rotation(A: Tensor, *, solver_device: str | torch.device | None = None) -> Tensor:
    r"""The rotation nearest to ``A``: :math:`R = U D V^T` with determinant 1 (Procrustes, Kabsch).

    It maximises :math:`\mathrm{tr}(R^T A)`. For points :math:`x_i, y_i` around their means, stacked as
    rows of ``X`` and ``Y``, ``rotation(Y.mT @ X)`` is the R that makes :math:`\sum |R x_i - y_i|^2`
    least. With :math:`t = (s_1, \dots, s_{n-1}, \pm s_n)`, with the sign of the determinant,

    .. math:: dR = U D \left[ \frac{(X - X^T)_{ij}}{t_i + t_j} \right] V^T, \qquad X = D U^T dA\, V.

    So points in a plane (one singular value zero) and regular bodies (all equal) are ordinary. The
    problem itself is singular where :math:`t_{n-1} + t_n = 0`: the two smallest singular values are
    zero, or they are equal and the determinant is negative. There several rotations are equally
    near; one of them is returned, and its derivative is an error.

    Args:
        A: matrices ``(..., n, n)``, float32 or float64.
        solver_device: where to decompose, as in :func:`eigh`.

    Returns:
        ``R`` ``(..., n, n)``, orthogonal with determinant 1; twice differentiable.

    Raises:
        torch.linalg.LinAlgError: in the backward, where the nearest rotation is not unique to working
            precision (not under ``torch.compile`` and ``torch.vmap``: there it is infinite or NaN).

    References: Kabsch, Acta Crystallographica A32, 1976; Umeyama, IEEE PAMI 13(4), 1991.

    >>> rotation(torch.diag(torch.tensor([3.0, 2.0, -1.0]))).diagonal()
    tensor([1., 1., 1.])
    """
    check_square(A, "rotation")
    if A.is_complex():
        raise TypeError(
            f"rotation expects real matrices, got {A.dtype}; orthogonalize gives the nearest unitary one"
        )
    return differentiable(Nearest(True, solver_device), A)
