r"""Leading subspaces: gradients that divide by the gaps across the cut, and by no others.

The projector on the k largest eigenvectors is a function of the matrix, 1 on the kept eigenvalues and 0
on the others. Its divided differences vanish between two kept or two dropped eigenvalues and are
:math:`1/(\lambda_i - \lambda_j)` across the cut: ties on either side are ordinary. Where the cut itself
falls into a tie, the subspace is not defined.

From data :math:`X = U S V^H` (rows are samples), the same function of singular values is
:math:`F = U_k V_k^H`, and :math:`P = F^H F` projects on the span of the first k columns of V. How these turn
among themselves is left open: no loss that depends on the subspace alone can tell. We let them turn as little
as possible: near X the basis is the polar factor of :math:`P V_k`, which to second order is

.. math:: V_k \left( I - \tfrac12 W^H W \right) + W, \qquad W = (I - V_k V_k^H)\, P\, V_k,

with a constant :math:`V_k`. Nothing is squared. The smallest right singular vectors are a basis N of the
complement, which turns with it: :math:`dN = -V_k\, dV_k^H N`.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from .checks import can_read_values, check_count, check_matrix, check_tensor
from .decompose import roundoff, svd_forward
from .differentiation import hermitian_part
from .functions import apply_function
from .precision import without_autocast
from .restricted import LeadingProjector, check_cut, leading
from .singular import Coefficients, SingularMap
from .smooth import Factors, differentiable


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
class _PrincipalBasis(SingularMap):
    """``A -> V_k``, or the other columns N, for at least as many rows as columns; with ``left`` those of U.

    The map of singular values is F. N turns by ``dN = -V_k dV_k^H N``.
    """

    k: int
    left: bool
    others: bool
    solver_device: str | torch.device | None = None

    @property
    def name(self) -> str:
        return "null_vectors" if self.others else "principal_subspace"

    def value(self, A: Tensor) -> tuple[Tensor, ...]:
        U, s, Vh = svd_forward(A, self.left and self.others, self.solver_device)
        factors = U.flip(-1), s.flip(-1), Vh.mH.flip(-1).resolve_conj().contiguous()
        return self._bases(factors)[0].clone(), *factors

    def like_value(self, A: Tensor, factors: Factors) -> Tensor:
        return self._bases(factors)[0]

    def coefficients(self, s: Tensor) -> Coefficients:
        cut = s.shape[-1] - self.k
        dropped = s[..., cut - 1] if cut > 0 else torch.zeros_like(s[..., 0])
        check_cut(s[..., cut], dropped, roundoff(s)[..., 0], "singular values")
        kept = leading(s, self.k).to(s.dtype).expand(s.shape)
        s_i, s_j, f_i, f_j = (x.unsqueeze(d) for x in (s, kept) for d in (-1, -2))
        across = torch.where(f_i == f_j, 0, 1 / (s_i - s_j).abs())
        sums = torch.where(f_i + f_j == 0, 0, (f_i + f_j) / (s_i + s_j))
        ratios = torch.where(kept == 0, 0, 1 / s).unsqueeze(-2)
        return Coefficients(across, sums, ratios)

    def second_product(self, s: Tensor, G: Tensor, W: Tensor) -> Tensor:
        return LeadingProjector(self.k).second_product(s, G, W)

    def jvp(self, factors: Factors, dA: Tensor) -> Tensor:
        return self._moved(factors, self._change(factors, dA))

    def vjp(self, factors: Factors, g: Tensor) -> Tensor:
        back = self._adjoint(self._moved_back(factors, g))
        return super().jvp(_thin(factors), back)

    def jvp_of_jvp(self, factors: Factors, v: Tensor, w: Tensor) -> Tensor:
        basis = self._bases(factors)[0]
        F_v, F_w = self._change(factors, v), self._change(factors, w)
        second = self._moved(factors, self._adjoint(super().jvp_of_jvp(_thin(factors), v, w)))
        both = _outside(basis, F_v @ (F_w.mH @ basis) + F_w @ (F_v.mH @ basis))
        inside = hermitian_part(self._moved(factors, F_v).mH @ self._moved(factors, F_w))
        return second + (-both if self.others else both) - basis @ inside

    def vjp_of_jvp(self, factors: Factors, g: Tensor, dA: Tensor) -> Tensor:
        basis = self._bases(factors)[0]
        F, out = self._change(factors, dA), _outside(basis, g)
        back = self._adjoint(self._moved_back(factors, g))
        second = super().jvp_of_jvp(_thin(factors), back, dA)
        both = basis @ (out.mH @ F) + out @ (basis.mH @ F)
        change = super().jvp(_thin(factors), self._adjoint(-both if self.others else both))
        W = self._moved(factors, F) @ hermitian_part(basis.mH @ g)
        return second + change - self.vjp(factors, W)

    def inspect(self, factors: Factors, g: Tensor) -> None:
        """Warn if the loss turns with the basis: for a subspace ``V_k^H g`` is Hermitian."""
        if self.others or not can_read_values(g):
            return
        C = self._bases(factors)[0].mH @ g
        allowed = math.sqrt(torch.finfo(g.dtype).eps) * g.abs().flatten(-2).sum(-1)
        if bool(((C - C.mH).abs().flatten(-2).sum(-1) > allowed).any()):
            warnings.warn(
                "the loss depends on the basis inside the principal subspace, and principal_subspace "
                "has the derivative of the subspace alone; use a function of V @ V.mH, or svd",
                stacklevel=2,
            )

    def _bases(self, factors: Factors) -> tuple[Tensor, Tensor, Tensor]:
        """The result, ``V_k`` and ``U_k``; each with the largest singular value first."""
        sides = [factors[0], factors[2]][:: 1 if self.left else -1]
        this, other = (side[..., side.shape[-1] - self.k :].flip(-1) for side in sides)
        whole = sides[0]
        return whole[..., : whole.shape[-1] - self.k].flip(-1) if self.others else this, this, other

    def _adjoint(self, F: Tensor) -> Tensor:
        return F if self.left else F.mH

    def _change(self, factors: Factors, dA: Tensor) -> Tensor:
        """``dF^H``."""
        return self._adjoint(super().jvp(_thin(factors), dA))

    def _moved(self, factors: Factors, F: Tensor) -> Tensor:
        """``W`` of a change ``F`` of F^H."""
        basis, V, U = self._bases(factors)
        return -V @ (U.mH @ (F.mH @ basis)) if self.others else _outside(V, F @ U)

    def _moved_back(self, factors: Factors, g: Tensor) -> Tensor:
        """The adjoint map."""
        basis, V, U = self._bases(factors)
        return (-basis @ (g.mH @ V) if self.others else _outside(V, g)) @ U.mH


def _thin(factors: Factors) -> Factors:
    """Without the columns of U that have no singular value."""
    U, s, V = factors
    return U[..., U.shape[-1] - s.shape[-1] :], s, V


def _outside(basis: Tensor, X: Tensor) -> Tensor:
    return X - basis @ (basis.mH @ X)


def _basis(A: Tensor, k: int, others: bool, solver_device: str | torch.device | None) -> Tensor:
    """The k leading right singular vectors, or the others."""
    wide = bool(A.shape[-2] < A.shape[-1])  # torch.jit.trace makes tensors of sizes
    f = _PrincipalBasis(k, wide, others, solver_device)
    return differentiable(f, A.mH if wide else A)


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
        derivatives are exact too.

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
    return _basis(X - X.mean(-2, keepdim=True), k, False, solver_device)


@without_autocast
def null_vectors(
    A: Tensor, k: int = 1, *, solver_device: str | torch.device | None = None
) -> Tensor:
    r"""The k smallest right singular vectors: unit vectors for which :math:`|A x|` is least.

    Homographies, fundamental matrices and normals are such vectors. The gradient belongs to their
    subspace: it is exact for every loss that depends on :math:`N N^H` alone, and for k = 1 for every loss
    (of a real vector; the sign does not move), whatever the other singular values are.

    Args:
        A: matrices ``(..., m, n)``, real or complex, of single or double precision; ``m`` at least
            ``n - k``.
        k: how many vectors, 1 to n - 1.
        solver_device: where to decompose, as in :func:`eigh`.

    Returns:
        ``N`` ``(..., n, k)`` with orthonormal columns, the smallest singular value last; twice
        differentiable. Signs are arbitrary.

    Raises:
        torch.linalg.LinAlgError: in the backward, where the singular values on both sides of the cut are
            equal to working precision (not under ``torch.compile`` and ``torch.func``: there it is
            infinite or NaN).

    Reference: Hartley and Zisserman, *Multiple View Geometry*, 2nd edition, section A5.3.

    >>> A = torch.tensor([[1.0, 0.0, -1.0], [0.0, 2.0, 0.0]])
    >>> null_vectors(A).abs()
    tensor([[0.7071],
            [0.0000],
            [0.7071]])
    """
    check_matrix(A, "null_vectors")
    m, n = A.shape[-2:]
    check_count(k, n - 1, "null_vectors", A)
    if m < n - k:
        raise ValueError(
            f"null_vectors expects at least n - k = {n - k} rows, got {tuple(A.shape)}: all of its "
            f"{n - m} or more null vectors count alike; give k of at least {n - m}"
        )
    return _basis(A, n - k, True, solver_device)
