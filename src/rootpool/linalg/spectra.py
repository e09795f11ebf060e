r"""Eigenvalues and singular values alone, with gradients that divide by nothing.

.. math:: \bar A = U\, \mathrm{diag}(g)\, U^H \qquad\text{and}\qquad \bar A = U\, \mathrm{diag}(g)\, V^H

for upstream gradients :math:`g`. At ties this is the gradient of every loss that is a symmetric function
of the values, and a generalised one of all others (Lewis 1996). They are the values of :func:`eigh` and
:func:`svd`. The next derivative moves the vectors: at a tie it would be :math:`(g_i - g_j)/(\lambda_i -
\lambda_j) = 0/0`, a derivative of the loss that g alone does not tell. So their rule refuses ties.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.linalg import LinAlgError

from .checks import bad_item, check_matrix, check_square, is_concrete, lower_triangle, needs_grad
from .decompose import roundoff, solve
from .eigh import eigh
from .precision import without_autocast
from .rules import GradientRule
from .solvers import EIGVALSH, SVDVALS, Solver
from .svd import svd


@dataclass(frozen=True)
class _Simple(GradientRule):
    """The kernel of values that differ to working precision; NaN for the others, which are an error."""

    of_singular_values: bool

    def __call__(self, eigenvalues: Tensor) -> Tensor:
        gap, level = eigenvalues.unsqueeze(-1) - eigenvalues.unsqueeze(-2), roundoff(eigenvalues)
        diagonal = torch.eye(gap.shape[-1], dtype=torch.bool, device=gap.device)
        gap = torch.where(diagonal, torch.inf, gap)
        bad = gap.abs() <= level.unsqueeze(-1)
        if self.of_singular_values:
            bad = bad | (eigenvalues <= level).unsqueeze(-1)
        return torch.where(bad, torch.nan, 1 / gap)

    def inspect(self, kernel: Tensor, coupling: Tensor, slopes: Tensor | None) -> None:
        if item := bad_item(kernel.isnan().flatten(-2).any(-1)):
            name, what = "eigvalsh", "equal eigenvalues"
            if self.of_singular_values:
                name, what = "svdvals", "equal or zero singular values"
            raise LinAlgError(
                f"the second derivative of {name} at {item} needs more of the loss than its gradient, "
                f"because the matrix has {what}; write the loss as the trace of a matrix function, which is "
                "exact there"
            )


# Made here: Dynamo of torch 2.8 cannot make values that have a field without a default.
_OF_EIGENVALUES, _OF_SINGULAR_VALUES = _Simple(False), _Simple(True)


def _alone(
    A: Tensor, solver: Solver, name: str, solver_device: str | torch.device | None
) -> Tensor | None:
    """Without a gradient no vectors are needed; None if one is wanted, or nobody can tell."""
    if needs_grad(A) or not is_concrete(A):
        return None
    (values,) = solve(solver, A.to(solver_device) if solver_device else A, name)
    return values.to(A.device)


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
    A = lower_triangle(A, UPLO)
    alone = _alone(A, EIGVALSH, "eigvalsh", solver_device)
    return eigh(A, rule=_OF_EIGENVALUES, solver_device=solver_device)[0] if alone is None else alone


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
    alone = _alone(A, SVDVALS, "svdvals", solver_device)
    if alone is not None:
        return alone
    s = svd(A, rule=_OF_SINGULAR_VALUES, solver_device=solver_device).S
    # Those that are zero have vectors of their own on each side: no gradient goes there.
    return torch.where(s > roundoff(s), s, s.detach())
