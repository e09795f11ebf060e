r"""Leading subspaces: gradients that divide by the gaps across the cut, and by no others.

The projector on the k largest eigenvectors is a function of the matrix, 1 on the kept eigenvalues and 0
on the others. Its divided differences vanish between two kept or two dropped eigenvalues and are
:math:`1/(\lambda_i - \lambda_j)` across the cut: ties on either side are ordinary. Where the cut itself
falls into a tie, the subspace is not defined.

From data :math:`X = U S V^T` (rows are samples), the first k columns of V turn towards the others by

.. math:: v_j^T dv_i = \frac{s_i M_{ij} + s_j M_{ji}}{(s_i - s_j)(s_i + s_j)}, \qquad M = U^T dX\, V,

for i kept and j dropped, and out of the range of V by :math:`(I - V V^T)\, dX^T u_i / s_i`. How they turn
among themselves is left open: no loss that depends on the subspace alone can tell.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

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
from .functions import _apply
from .parameters import check_at_least
from .precision import without_autocast
from .scalar import ScalarFunction

__all__ = ["LeadingProjector", "leading_projector", "principal_subspace"]


def _check_cut(kept: Tensor, dropped: Tensor, level: Tensor, what: str) -> None:
    """Raise where the smallest kept value is not above the largest dropped one; tensors ``(...)``."""
    if not may_check(kept):  # then the derivative is infinite or NaN
        return
    closed = kept - dropped <= level
    if bool(closed.any()):
        index = first_index(closed)
        raise LinAlgError(
            f"the leading subspace of {name_item(index)} has no derivative, because {what} on both "
            f"sides of the cut are equal to working precision ({kept[index].item():.6g} and "
            f"{dropped[index].item():.6g}); choose k at a gap of the spectrum"
        )


# --------------------------------------------------------------------------------------------------
# Of a matrix


@dataclass(frozen=True)
class LeadingProjector(ScalarFunction):
    r"""1 on the ``count`` largest eigenvalues and 0 on the others.

    :math:`f[a, b] = 1/(a - b)` across the cut and 0 elsewhere. The second divided differences are
    products of two such quotients: for two kept ``a``, ``b`` and a dropped ``c``,
    :math:`f[a, b, c] = -1/((a - c)(b - c))`; for two dropped ones with the other sign.
    """

    count: int

    def __post_init__(self) -> None:
        check_at_least("k", self.count, 1)

    @property
    def domain(self) -> str:
        return "any"

    def _kept(self, lam: Tensor) -> Tensor:
        n = lam.shape[-1]
        return torch.arange(n, device=lam.device) >= n - self.count

    def values(self, lam: Tensor) -> Tensor:
        return self._kept(lam).to(lam.dtype).expand_as(lam)

    def derivatives(self, lam: Tensor) -> Tensor:
        return torch.zeros_like(lam)

    def divided_differences(self, lam: Tensor) -> Tensor:
        kept, cut = self._kept(lam), lam.shape[-1] - self.count
        if cut > 0:
            _check_cut(lam[..., cut], lam[..., cut - 1], roundoff(lam)[..., 0], "eigenvalues")
        across = kept.unsqueeze(-1) != kept
        gap = (lam.unsqueeze(-1) - lam.unsqueeze(-2)).abs()
        return torch.where(across, 1 / torch.where(across, gap, 1), 0)

    def second_product(self, lam: Tensor, G: Tensor, W: Tensor) -> Tensor:
        kept, L = self._kept(lam), self.divided_differences(lam)
        sign = torch.where(kept, 1, -1).to(lam.dtype)
        inside = kept.unsqueeze(-1) == kept
        G_in, W_in = torch.where(inside, G, 0), torch.where(inside, W, 0)
        G_L, W_L = L * G, L * W  # across the cut alone
        same = -sign.unsqueeze(-1) * (G_L @ W_L + W_L @ G_L)
        other = G_L @ W_in + W_L @ G_in - G_in @ W_L - W_in @ G_L
        return same + L * sign.unsqueeze(-1) * other


def leading_projector(
    A: Tensor, k: int, *, solver_device: str | torch.device | None = None
) -> Tensor:
    r"""Orthogonal projector :math:`P = U_k U_k^T` on the span of the k largest eigenvectors of ``A``.

    .. math:: dP = U \left( L \circ (U^T dA\, U) \right) U^T, \qquad
              L_{ij} = \frac{1}{|\lambda_i - \lambda_j|} \text{ across the cut, else } 0

    Exact, also in second derivatives, at ties among the kept and among the dropped eigenvalues.

    Args:
        A: symmetric matrices ``(..., n, n)``, float32 or float64; need not be definite.
        k: how many eigenvectors, 1 to n.
        solver_device: where to decompose, as in :func:`eigh`.

    Returns:
        ``P`` ``(..., n, n)``. Where the cut falls into a tie, one of several projectors.

    Raises:
        torch.linalg.LinAlgError: in the backward, where the eigenvalues on both sides of the cut are
            equal to working precision (not under ``torch.compile`` and ``torch.func``: there it is
            infinite or NaN).

    >>> A = torch.diag(torch.tensor([1.0, 1.0, 3.0, 3.0])).requires_grad_()
    >>> P = leading_projector(A, 2)
    >>> P.detach().diagonal()
    tensor([0., 0., 1., 1.])
    >>> P[0, 2].backward()
    >>> A.grad[0, 2]
    tensor(0.2500)
    """
    check_square(A, "leading_projector")
    _check_count(k, A.shape[-1], "leading_projector", A)
    return _apply(A, LeadingProjector(k), "leading_projector", solver_device=solver_device)


def _check_count(k: int, most: int, caller: str, A: Tensor) -> None:
    check_at_least("k", k, 1)
    if k > most:
        raise ValueError(
            f"{caller} expects k of at most {most} for shape {tuple(A.shape)}, got {k}"
        )


# --------------------------------------------------------------------------------------------------
# Of data


class _PrincipalBasis(torch.autograd.Function):
    """``X -> V_k``; the decomposition comes along."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        X: Tensor, k: int, solver_device: str | torch.device | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        U, s, Vh = svd_forward(X, False, solver_device)
        return Vh[..., :k, :].mT.contiguous(), U, s, Vh

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        X, ctx.k, _ = inputs
        _, U, s, Vh = output
        ctx.checked = checks_enabled()
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(U, s, Vh)
        ctx.save_for_backward(X, U, s, Vh)
        ctx.save_for_forward(X, U, s, Vh)

    @staticmethod
    @checked_like_forward
    @without_autocast
    def backward(ctx: Any, G: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        if G is None:
            return None, None, None
        return _PrincipalGradient.apply(*ctx.saved_tensors, G, ctx.k), None, None


class _PrincipalBasisForward(_PrincipalBasis):
    @staticmethod
    @checked_like_forward
    @without_autocast
    def jvp(ctx: Any, dX: Tensor, *_: None) -> tuple[Tensor | None, ...]:
        _, U, s, Vh = ctx.saved_tensors
        k = ctx.k
        M = U.mT @ dX @ Vh.mT
        long, short = _across(s, k, dX.shape[-1])
        turn = long * M[..., :k, k:].mT + short * M[..., k:, :k]
        change = Vh[..., k:, :].mT @ turn
        if dX.shape[-1] > s.shape[-1]:
            step = dX.mT @ U[..., :k]
            change = change + (step - Vh.mT @ (Vh @ step)) / s[..., None, :k]
        return change, None, None, None


class _PrincipalGradient(torch.autograd.Function):
    """The transpose of the map above; a further derivative is refused."""

    generate_vmap_rule = True

    @staticmethod
    def forward(X: Tensor, U: Tensor, s: Tensor, Vh: Tensor, G: Tensor, k: int) -> Tensor:
        B = Vh @ G
        _warn_of_basis(B[..., :k, :])
        long, short = _across(s, k, X.shape[-1])
        gradient = U[..., :k] @ (long * B[..., k:, :]).mT @ Vh[..., k:, :]
        gradient = gradient + U[..., k:] @ (short * B[..., k:, :]) @ Vh[..., :k, :]
        if X.shape[-1] > s.shape[-1]:
            outside = (G - Vh.mT @ B) / s[..., None, :k]
            gradient = gradient + U[..., :k] @ outside.mT
        check_range(gradient, "the gradient of principal_subspace", G, item="X", advice="scale X")
        return gradient

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> tuple[None, ...]:
        raise RuntimeError(
            "second derivatives of principal_subspace are not implemented; "
            "leading_projector of the covariance has them"
        )


def _across(s: Tensor, k: int, d: int) -> tuple[Tensor, Tensor]:
    """``s_i / (s_i^2 - s_j^2)`` and ``s_j / (s_i^2 - s_j^2)`` for j dropped (rows) and i kept."""
    kept, dropped = s[..., :k], s[..., k:]
    if k < d:
        next_one = dropped[..., 0] if k < s.shape[-1] else torch.zeros_like(kept[..., 0])
        _check_cut(kept[..., -1], next_one, roundoff(s)[..., 0], "singular values")
    s_i, s_j = kept.unsqueeze(-2), dropped.unsqueeze(-1)
    inverse = 1 / (s_i - s_j)
    return inverse * (s_i / (s_i + s_j)), inverse * (s_j / (s_i + s_j))


def _warn_of_basis(C: Tensor) -> None:
    """Warn if the loss turns with the basis: ``C = V_k^T dl/dV_k`` is symmetric for a subspace."""
    if not may_check(C):
        return
    allowed = math.sqrt(torch.finfo(C.dtype).eps) * C.abs()
    if bool(((C - C.mT).abs().flatten(-2).sum(-1) > allowed.flatten(-2).sum(-1)).any()):
        warnings.warn(
            "the loss depends on the basis inside the principal subspace, and principal_subspace has "
            "the derivative of the subspace alone; use a function of V @ V.mT, or svd",
            stacklevel=2,
        )


@without_autocast
def principal_subspace(
    X: Tensor, k: int, *, solver_device: str | torch.device | None = None
) -> Tensor:
    r"""Orthonormal basis of the k leading principal directions of data (PCA), thin when N < d.

    The data are centred and never squared, so small principal components keep their digits. The
    gradient is that of the subspace: exact for every loss that depends on the basis :math:`V` through
    :math:`V V^T` alone, also with ties among the kept and among the dropped directions. A loss that
    depends on more is reported by a warning (not under ``torch.compile`` or ``torch.func``).

    Args:
        X: samples in rows, ``(..., N, d)``, float32 or float64.
        k: how many directions, 1 to ``min(N, d)``.
        solver_device: where to decompose, as in :func:`eigh`.

    Returns:
        ``V`` ``(..., d, k)``, the leading direction first. ``X @ V`` are the principal components.

    Raises:
        torch.linalg.LinAlgError: in the backward, as for :func:`leading_projector`; also if the k-th
            singular value is zero.

    >>> X = torch.tensor([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]]).requires_grad_()
    >>> V = principal_subspace(X, 1)
    >>> (V @ V.mT)[0, 1].backward()
    >>> X.grad
    tensor([[ 0.0000,  0.3333],
            [ 0.0000, -0.3333],
            [ 0.1667,  0.0000],
            [-0.1667,  0.0000]])
    """
    check_matrix(X, "principal_subspace")
    _check_count(k, min(X.shape[-2:]), "principal_subspace", X)
    centred = X - X.mean(-2, keepdim=True)
    kind = mode_for(_PrincipalBasis, _PrincipalBasisForward)
    basis: Tensor = kind.apply(centred, k, solver_device)[0]
    return basis
