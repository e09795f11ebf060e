r"""Eigenvalues and singular values alone, with gradients that divide by nothing.

.. math:: \bar A = U\, \mathrm{diag}(g)\, U^H \qquad\text{and}\qquad \bar A = U\, \mathrm{diag}(g)\, V^H

for upstream gradients :math:`g`. At ties this is the gradient of every loss that is a symmetric function
of the values, and a generalised one of all others (Lewis 1996). The next derivative moves the vectors.
In their basis, with :math:`E = U^H dA\, U`,

.. math:: d\bar A = U \left( \mathrm{diag}(dg) +
          \left[ \frac{g_i - g_j}{\lambda_i - \lambda_j} E_{ij} \right]_{i \ne j} \right) U^H,

and for singular values the same with the Hermitian part of :math:`X = U^H dA\, V`, besides
:math:`(g_i + g_j)/(s_i + s_j)` for the antihermitian part and :math:`g_i/s_i` outside the range of U (for
at least as many rows as columns; otherwise transpose). At a tie the quotient 0/0 stands for a derivative of
the loss that g alone does not tell: an error. The inner product of that with another change is linear in g,
and its coefficients are the second derivatives of the values.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.linalg import LinAlgError

from .checks import (
    bad_item,
    check_matrix,
    check_square,
    is_concrete,
    lower_triangle,
    needs_grad,
)
from .decompose import eigh_forward, roundoff, solve, svd_forward
from .differentiation import hermitian_part
from .precision import without_autocast
from .smooth import Factors, Smooth, differentiable
from .solvers import EIGVALSH, SVDVALS, Solver

__all__ = ["eigvalsh", "svdvals"]


# --------------------------------------------------------------------------------------------------
# One function for both: an eigendecomposition is a singular value decomposition with U = V


@dataclass(frozen=True)
class _Values(Smooth):
    """``A -> lam`` or ``s``; the factors are these values, U and V."""

    symmetric: bool
    solver_device: str | torch.device | None = None

    @property
    def name(self) -> str:
        return "eigvalsh" if self.symmetric else "svdvals"

    def value(self, A: Tensor) -> tuple[Tensor, ...]:
        if self.symmetric:
            values, U = eigh_forward(A, "triangle", self.name, self.solver_device)
            return values, values.clone(), U, U.clone()
        U, values, Vh = svd_forward(A, False, self.solver_device)
        return values, values.clone(), U, Vh.mH.resolve_conj().contiguous()

    def like_value(self, A: Tensor, factors: Factors) -> Tensor:
        return factors[0]

    def jvp(self, factors: Factors, dA: Tensor) -> Tensor:
        values, U, V = factors
        return torch.where(self._alive(values), (U.conj() * (dA @ V)).sum(-2).real, 0)

    def vjp(self, factors: Factors, g: Tensor) -> Tensor:
        values, U, V = factors
        return (U * torch.where(self._alive(values), g, 0).unsqueeze(-2)) @ V.mH

    def vjp_of_jvp(self, factors: Factors, g: Tensor, dA: Tensor) -> Tensor:
        _, U, V = factors
        apart, together, left = self._quotients(factors, dA)
        g_i, g_j = g.unsqueeze(-1), g.unsqueeze(-2)
        inner = (g_i - g_j) * apart
        if together is not None:
            inner = inner + (g_i + g_j) * together
        turned = U @ inner @ V.mH
        if left is not None:
            turned = turned + (left * g_j) @ V.mH
        return turned

    def jvp_of_jvp(self, factors: Factors, v: Tensor, w: Tensor) -> Tensor:
        _, U, V = factors
        apart, together, left = self._quotients(factors, w)
        v = self._part(v)
        X = (U.mH @ v @ V).conj()
        pairs = (X * apart).real
        total = pairs.sum(-1) - pairs.sum(-2)
        if together is not None:
            pairs = (X * together).real
            total = total + pairs.sum(-1) + pairs.sum(-2)
        if left is not None:
            total = total + ((v @ V).conj() * left).real.sum(-2)
        return total

    def _quotients(
        self, factors: Factors, dA: Tensor
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """The terms of vjp_of_jvp: by differences and by sums of g, and outside the range of U."""
        values, U, V = factors
        self._check_simple(values)
        dA = self._part(dA)
        X = U.mH @ dA @ V
        gap = values.unsqueeze(-1) - values.unsqueeze(-2)
        diagonal = torch.eye(gap.shape[-1], dtype=torch.bool, device=gap.device)
        # 0/0 at a tie that could not be looked at is NaN, as it should be.
        apart = torch.where(diagonal, 0, hermitian_part(X) / torch.where(diagonal, 1, gap))
        if self.symmetric:
            return apart, None, None
        together = (X - X.mH) / 2 / (values.unsqueeze(-1) + values.unsqueeze(-2))
        if U.shape[-2] == U.shape[-1]:
            return apart, together, None
        return apart, together, (dA @ V - U @ X) / values.unsqueeze(-2)

    def _check_simple(self, values: Tensor) -> None:
        """Raise where two values are equal, or a singular value is zero, to working precision."""
        level = roundoff(values)
        bad = (values.diff(dim=-1).abs() <= level).any(-1)
        what = "equal eigenvalues"
        if not self.symmetric:
            bad = bad | (values <= level).any(-1)
            what = "equal or zero singular values"
        if item := bad_item(bad):
            raise LinAlgError(
                f"the second derivative of {self.name} at {item} needs more of the loss than its gradient, "
                f"because the matrix has {what}; write the loss as the trace of a matrix function, which is "
                "exact there"
            )

    def _part(self, dA: Tensor) -> Tensor:
        return hermitian_part(dA) if self.symmetric else dA

    def _alive(self, values: Tensor) -> Tensor:
        """Singular values that are zero have vectors of their own on each side: no gradient goes there."""
        if self.symmetric:
            return torch.ones_like(values, dtype=torch.bool)
        return values > roundoff(values)


# --------------------------------------------------------------------------------------------------
# Without a gradient no vectors are needed


def _values(A: Tensor, f: _Values, solver: Solver) -> Tensor:
    if is_concrete(A) and not needs_grad(A):
        (alone,) = solve(solver, A.to(f.solver_device) if f.solver_device else A, f.name)
        return alone.to(A.device)
    return differentiable(f, A.mH if A.shape[-2] < A.shape[-1] else A)


@without_autocast
def eigvalsh(
    A: Tensor, UPLO: str = "L", *, solver_device: str | torch.device | None = None
) -> Tensor:
    r"""Eigenvalues of symmetric or Hermitian ``A`` with the gradient :math:`U\, \mathrm{diag}(g)\, U^H`.

    A drop-in for :func:`torch.linalg.eigvalsh`: one triangle alone is read, and the gradient is
    symmetric. At ties it is right for every loss that does not depend on the order of equal
    eigenvalues. Second derivatives are right where the eigenvalues differ, and an error at ties; for
    losses that are sums over eigenvalues use the trace of :func:`matrix_function`, which has them.

    Args:
        A: symmetric or complex Hermitian matrices ``(..., n, n)`` of single or double precision.
        UPLO: the triangle to read, ``"L"`` or ``"U"``.
        solver_device: where to decompose, as in :func:`eigh`.

    Returns:
        Eigenvalues ``(..., n)`` in ascending order.

    Reference: Lewis, Derivatives of spectral functions, Mathematics of Operations Research 21(3), 1996.

    >>> A = torch.eye(2, requires_grad=True)
    >>> eigvalsh(A).log().sum().backward()
    >>> A.grad
    tensor([[1., 0.],
            [0., 1.]])
    """
    check_square(A, "eigvalsh")
    return _values(lower_triangle(A, UPLO), _Values(True, solver_device), EIGVALSH)


@without_autocast
def svdvals(A: Tensor, *, solver_device: str | torch.device | None = None) -> Tensor:
    r"""Singular values of ``A`` with the gradient :math:`U\, \mathrm{diag}(g)\, V^H`.

    A drop-in for :func:`torch.linalg.svdvals`. Equal singular values are as in :func:`eigvalsh`. A
    singular value that is zero (at round-off level, ``2 sqrt(k) eps max(s)``) has no derivative: no
    gradient flows there, which for the nuclear norm is the subgradient of least norm. Second
    derivatives are right where the singular values differ and none is zero, and an error elsewhere.

    Args:
        A: matrices ``(..., m, n)``, real or complex, of single or double precision.
        solver_device: where to decompose, as in :func:`eigh`.

    Returns:
        Singular values ``(..., min(m, n))`` in descending order.

    >>> A = torch.zeros(3, 2, requires_grad=True)
    >>> svdvals(A).sum().backward()  # the nuclear norm of a zero matrix
    >>> bool((A.grad == 0).all())
    True
    """
    check_matrix(A, "svdvals")
    return _values(A, _Values(False, solver_device), SVDVALS)
