r"""Leading subspaces: gradients that divide by the gaps across the cut, and by no others.

The projector on the k largest eigenvectors is a function of the matrix, 1 on the kept eigenvalues and 0
on the others. Its divided differences vanish between two kept or two dropped eigenvalues and are
:math:`1/(\lambda_i - \lambda_j)` across the cut: ties on either side are ordinary. Where the cut itself
falls into a tie, the subspace is not defined.

From data :math:`X = U S V^H` (rows are samples), the first k columns of V turn towards the others by

.. math:: v_j^H dv_i = \frac{s_i \bar M_{ij} + s_j M_{ji}}{(s_i - s_j)(s_i + s_j)}, \qquad M = U^H dX\, V,

for i kept and j dropped, and out of the range of V by :math:`(I - V V^H)\, dX^H u_i / s_i`. How they turn
among themselves is left open: no loss that depends on the subspace alone can tell. We let them turn as
little as possible: near X the basis is the polar factor of :math:`P V_k`, with the projector P on the
subspace. That is :math:`V_k + dP\, V_k + \tfrac12 (d^2 P + dP\, dP) V_k`, and P is twice the lower right
block of the leading projector of

.. math:: E = \begin{pmatrix} 0 & X \\ X^H & 0 \end{pmatrix},

whose eigenvalues are the singular values and their negatives: nothing is squared there either.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.linalg import LinAlgError

from .checks import (
    can_read_values,
    check_count,
    check_matrix,
    check_range,
    check_tensor,
    first_index,
    name_item,
)
from .decompose import eigh_forward, roundoff, svd_forward
from .differentiation import hermitian_part
from .functions import apply_function
from .matrix_derivatives import second_derivative
from .precision import without_autocast
from .restricted import Pieces, leading
from .smooth import Factors, Smooth, differentiable

__all__ = [
    "LeadingProjector",
    "PrincipalBasis",
    "check_cut",
    "leading_projector",
    "principal_subspace",
]


def check_cut(kept: Tensor, dropped: Tensor, level: Tensor, what: str) -> None:
    """Raise where the smallest kept value is not above the largest dropped one; tensors ``(...)``."""
    if not can_read_values(kept):  # then the derivative is infinite or NaN
        return
    closed = kept - dropped <= 2.5 * level  # equal ones come out as far apart as that
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
class LeadingProjector(Pieces):
    r"""1 on the ``count`` largest eigenvalues and 0 on the others.

    :math:`f[a, b] = 1/(a - b)` across the cut and 0 elsewhere.
    """

    count: int

    def part(self, lam: Tensor) -> Tensor:
        return leading(lam, self.count)

    def values(self, lam: Tensor) -> Tensor:
        return self.part(lam).to(lam.dtype).expand_as(lam)

    def derivatives(self, lam: Tensor) -> Tensor:
        return torch.zeros_like(lam)

    def divided_differences(self, lam: Tensor) -> Tensor:
        cut = lam.shape[-1] - self.count
        if cut > 0:
            check_cut(lam[..., cut], lam[..., cut - 1], roundoff(lam)[..., 0], "eigenvalues")
        return super().divided_differences(lam)


def leading_projector(
    A: Tensor, k: int, *, solver_device: str | torch.device | None = None
) -> Tensor:
    r"""Orthogonal projector :math:`P = U_k U_k^H` on the span of the k largest eigenvectors of ``A``.

    .. math:: dP = U \left( L \circ (U^T dA\, U) \right) U^T, \qquad
              L_{ij} = \frac{1}{|\lambda_i - \lambda_j|} \text{ across the cut, else } 0

    Exact, also in second derivatives, at ties among the kept and among the dropped eigenvalues.

    Args:
        A: symmetric or complex Hermitian matrices ``(..., n, n)``; need not be definite.
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
    check_tensor(A, "leading_projector")
    check_count(k, A.shape[-1] if A.dim() else 0, "leading_projector", A)
    return apply_function(A, LeadingProjector(k), "leading_projector", solver_device=solver_device)


# --------------------------------------------------------------------------------------------------
# Of data


@dataclass(frozen=True)
class PrincipalBasis(Smooth):
    """``X -> V_k``, or the other columns N of V; the factors are U, s and V^H.

    The projector on N is ``I - P``, and so ``dN = -V_k dV_k^H N``.
    """

    k: int
    solver_device: str | torch.device | None = None
    others: bool = False

    @property
    def name(self) -> str:
        return "null_vectors" if self.others else "principal_subspace"

    def value(self, X: Tensor) -> tuple[Tensor, ...]:
        factors = svd_forward(X, self.others and X.shape[-2] < X.shape[-1], self.solver_device)
        return self._basis(factors).contiguous().resolve_conj(), *factors

    def like_value(self, A: Tensor, factors: Factors) -> Tensor:
        return self._basis(factors)

    def _basis(self, factors: Factors) -> Tensor:
        return (factors[2][..., self.k :, :] if self.others else factors[2][..., : self.k, :]).mH

    def jvp(self, factors: Factors, dX: Tensor) -> Tensor:
        U, s, Vh = _thin(factors)
        k = self.k
        M = U.mH @ dX @ Vh.mH
        long, short = _across(s, k, dX.shape[-1])
        change = Vh[..., k:, :].mH @ (long * M[..., :k, k:].mH + short * M[..., k:, :k])
        if dX.shape[-1] > s.shape[-1]:
            step = dX.mH @ U[..., :k]
            change = change + (step - Vh.mH @ (Vh @ step)) / s[..., None, :k]
        if self.others:
            return -Vh[..., :k, :].mH @ (change.mH @ self._basis(factors))
        return change

    def vjp(self, factors: Factors, g: Tensor) -> Tensor:
        U, s, Vh = _thin(factors)
        k = self.k
        if self.others:
            g = -self._basis(factors) @ (g.mH @ Vh[..., :k, :].mH)
        B = Vh @ g
        long, short = _across(s, k, g.shape[-2])
        gradient = U[..., :k] @ (long * B[..., k:, :]).mH @ Vh[..., k:, :]
        gradient = gradient + U[..., k:] @ (short * B[..., k:, :]) @ Vh[..., :k, :]
        if g.shape[-2] > s.shape[-1]:
            outside = (g - Vh.mH @ B) / s[..., None, :k]
            gradient = gradient + U[..., :k] @ outside.mH
        check_range(gradient, f"the gradient of {self.name}", g, item="X", advice="scale X")
        return gradient

    def inspect(self, factors: Factors, g: Tensor) -> None:
        """Warn if the loss turns with the basis: for a subspace ``V_k^H g`` is Hermitian."""
        if self.others or not can_read_values(g):
            return
        C = self._basis(factors).mH @ g
        allowed = math.sqrt(torch.finfo(g.dtype).eps) * g.abs().flatten(-2).sum(-1)
        if bool(((C - C.mH).abs().flatten(-2).sum(-1) > allowed).any()):
            warnings.warn(
                "the loss depends on the basis inside the principal subspace, and principal_subspace "
                "has the derivative of the subspace alone; use a function of V @ V.mH, or svd",
                stacklevel=2,
            )

    def vjp_of_jvp(self, factors: Factors, g: Tensor, dX: Tensor) -> Tensor:
        V, N = self._basis(factors), dX.shape[-2]
        # <g, d2P V> is the inner product of the projector of E with g V^H in its lower right block.
        corner = _embedded(torch.zeros_like(dX), hermitian_part(g @ V.mH))
        bent = self._second_of_projector(factors, corner, _embedded(dX))[..., :N, N:]
        inside = self.jvp(factors, dX) @ hermitian_part(V.mH @ g)
        return (-4 if self.others else 4) * bent + self.vjp(factors, inside)

    def jvp_of_jvp(self, factors: Factors, v: Tensor, w: Tensor) -> Tensor:
        V, N = self._basis(factors), v.shape[-2]
        bent = self._second_of_projector(factors, _embedded(v), _embedded(w))[..., N:, N:]
        inside = hermitian_part(self.jvp(factors, v).mH @ self.jvp(factors, w))
        return (-2 if self.others else 2) * bent @ V + V @ inside

    def _second_of_projector(self, factors: Factors, G: Tensor, W: Tensor) -> Tensor:
        U, s, Vh = _thin(factors)
        E = _embedded((U * s.unsqueeze(-2)) @ Vh)
        lam, vectors = eigh_forward(E, "any", self.name, self.solver_device)
        return second_derivative(lam, vectors, G, W, LeadingProjector(self.k))


def _thin(factors: Factors) -> Factors:
    """Without the rows of V^H that have no singular value."""
    U, s, Vh = factors
    return U, s, Vh[..., : s.shape[-1], :]


def _embedded(X: Tensor, corner: Tensor | None = None) -> Tensor:
    """``[[0, X], [X^H, corner]]``."""
    N, d = X.shape[-2:]
    zeros = torch.zeros_like(X[..., :1, :1])
    lower = zeros.expand(*X.shape[:-2], d, d) if corner is None else corner
    above = torch.cat([zeros.expand(*X.shape[:-2], N, N), X], -1)
    return torch.cat([above, torch.cat([X.mH, lower], -1)], -2)


def _across(s: Tensor, k: int, d: int) -> tuple[Tensor, Tensor]:
    """``s_i / (s_i^2 - s_j^2)`` and ``s_j / (s_i^2 - s_j^2)`` for j dropped (rows) and i kept."""
    kept, dropped = s[..., :k], s[..., k:]
    if k < d:
        next_one = dropped[..., 0] if k < s.shape[-1] else torch.zeros_like(kept[..., 0])
        check_cut(kept[..., -1], next_one, roundoff(s)[..., 0], "singular values")
    s_i, s_j = kept.unsqueeze(-2), dropped.unsqueeze(-1)
    inverse = 1 / (s_i - s_j)
    return inverse * (s_i / (s_i + s_j)), inverse * (s_j / (s_i + s_j))


@without_autocast
def principal_subspace(
    X: Tensor, k: int, *, solver_device: str | torch.device | None = None
) -> Tensor:
    r"""Orthonormal basis of the k leading principal directions of data (PCA), thin when N < d.

    The data are centred and never squared, so small principal components keep their digits. The
    gradient belongs to the subspace: exact for every loss that depends on the basis :math:`V` through
    :math:`V V^H` alone, also with ties among the kept and among the dropped directions. A loss that
    depends on more is reported by a warning (not under ``torch.compile`` or ``torch.func``).

    Args:
        X: samples in rows, ``(..., N, d)``, real or complex, of single or double precision.
        k: how many directions, 1 to ``min(N, d)``.
        solver_device: where to decompose, as in :func:`eigh`.

    Returns:
        ``V`` ``(..., d, k)``, the leading direction first. ``X @ V`` are the principal components. Second
        derivatives are exact too, and decompose matrices of the size N + d.

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
    check_count(k, min(X.shape[-2:]), "principal_subspace", X)
    return differentiable(PrincipalBasis(k, solver_device), X - X.mean(-2, keepdim=True))
