r"""Eigenvalues and singular values alone, with gradients that divide by nothing.

.. math:: \bar A = U\, \mathrm{diag}(g)\, U^T \qquad\text{and}\qquad \bar A = U\, \mathrm{diag}(g)\, V^T

for upstream gradients :math:`g`. At ties this is the gradient of every loss that is a symmetric function
of the values, and a generalised one of all others (Lewis 1996). The next derivative moves the vectors.
In their basis, with :math:`E = U^T dA\, U`,

.. math:: d\bar A = U \left( \mathrm{diag}(dg) +
          \left[ \frac{g_i - g_j}{\lambda_i - \lambda_j} E_{ij} \right]_{i \ne j} \right) U^T,

and for singular values the same with the symmetric part of :math:`X = U^T dA\, V`, besides
:math:`(g_i + g_j)/(s_i + s_j)` for the antisymmetric part and :math:`g_i/s_i` outside the ranges of U and
V. At a tie the quotient 0/0 stands for a derivative of the loss that g alone does not tell: an error.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.linalg import LinAlgError

from ._solvers import EIGH, SVD, Factors, Solver
from .checks import (
    check_matrix,
    check_square,
    checked_like_forward,
    checks_enabled,
    first_index,
    is_plain,
    is_watched,
    may_check,
    name_item,
)
from .decompose import _solve, eigh_forward, roundoff, svd_forward
from .differentiation import mode_for
from .precision import without_autocast

__all__ = ["eigvalsh", "svdvals"]


# --------------------------------------------------------------------------------------------------
# One pair of Functions for both: an eigendecomposition is a singular value decomposition with U = V


class _Values(torch.autograd.Function):
    """``A -> lam`` (or ``s``); the vectors come along, and are not differentiated."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        A: Tensor, symmetric: bool, solver_device: str | torch.device | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        if symmetric:
            lam, U = eigh_forward(A, "triangle", "eigvalsh", solver_device)
            return lam, U, U.clone()
        U, s, Vh = svd_forward(A, False, solver_device)
        return s, U, Vh.mT.contiguous()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        A, ctx.symmetric, _ = inputs
        values, U, V = output
        ctx.checked = checks_enabled()
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(U, V)
        ctx.save_for_backward(A, values, U, V)
        ctx.save_for_forward(A, values, U, V)

    @staticmethod
    @checked_like_forward
    @without_autocast
    def backward(ctx: Any, g: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        if g is None:
            return None, None, None
        A, values, U, V = ctx.saved_tensors
        return _matrix(A, values, U, V, g, ctx.symmetric), None, None


class _ValuesForward(_Values):
    @staticmethod
    @checked_like_forward
    @without_autocast
    def jvp(ctx: Any, dA: Tensor, *_: None) -> tuple[Tensor | None, ...]:
        _, values, U, V = ctx.saved_tensors
        change = _diagonal(U, dA, V)
        return torch.where(_alive(values, ctx.symmetric), change, 0), None, None


class _Matrix(torch.autograd.Function):
    """``g -> U diag(g) V^T``, the gradient; ``A`` stands for the derivative of U and V."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        A: Tensor, values: Tensor, U: Tensor, V: Tensor, g: Tensor, symmetric: bool
    ) -> Tensor:
        return (U * torch.where(_alive(values, symmetric), g, 0).unsqueeze(-2)) @ V.mT

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        *tensors, ctx.symmetric = inputs
        ctx.checked = checks_enabled()
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)

    @staticmethod
    @checked_like_forward
    @without_autocast
    def backward(ctx: Any, W: Tensor) -> tuple[Tensor | None, ...]:
        A, values, U, V, g = ctx.saved_tensors
        W = (W + W.mT) / 2 if ctx.symmetric else W
        g_g = torch.where(_alive(values, ctx.symmetric), _diagonal(U, W, V), 0)
        g_A = _Turned.apply(values, U, V, g, W, ctx.symmetric) if ctx.needs_input_grad[0] else None
        return g_A, None, None, None, g_g, None


class _MatrixForward(_Matrix):
    @staticmethod
    @checked_like_forward
    @without_autocast
    def jvp(ctx: Any, dA: Tensor | None, *rest: Any) -> Tensor:
        A, values, U, V, g = ctx.saved_tensors
        dg = rest[3]
        total = torch.zeros_like(A)
        if dg is not None:
            total = total + _matrix(A, values, U, V, dg, ctx.symmetric)
        if dA is not None:
            dA = (dA + dA.mT) / 2 if ctx.symmetric else dA
            total = total + _Turned.apply(values, U, V, g, dA, ctx.symmetric)
        return total


class _Turned(torch.autograd.Function):
    """What turning U and V along ``W`` does to ``U diag(g) V^T``; a further derivative is refused."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        values: Tensor, U: Tensor, V: Tensor, g: Tensor, W: Tensor, symmetric: bool
    ) -> Tensor:
        _check_simple(values, symmetric)
        X = U.mT @ W @ V
        gap = values.unsqueeze(-1) - values.unsqueeze(-2)
        rise = g.unsqueeze(-1) - g.unsqueeze(-2)
        diagonal = torch.eye(gap.shape[-1], dtype=torch.bool, device=gap.device)
        # 0/0 at a tie that could not be looked at is NaN, as it should be.
        K = torch.where(diagonal, 0, rise / torch.where(diagonal, 1, gap))
        if symmetric:
            return U @ (K * X) @ V.mT
        sums = values.unsqueeze(-1) + values.unsqueeze(-2)
        inner = K * (X + X.mT) / 2 + (g.unsqueeze(-1) + g.unsqueeze(-2)) / sums * (X - X.mT) / 2
        ratio = (g / values).unsqueeze(-2)
        turned = U @ inner @ V.mT
        if U.shape[-2] > U.shape[-1]:
            turned = turned + ((W @ V - U @ X) * ratio) @ V.mT
        if V.shape[-2] > V.shape[-1]:
            turned = turned + (U * ratio) @ (U.mT @ W - X @ V.mT)
        return turned

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> tuple[None, ...]:
        raise RuntimeError(
            "third derivatives of eigenvalues and singular values are not implemented"
        )


def _matrix(A: Tensor, values: Tensor, U: Tensor, V: Tensor, g: Tensor, symmetric: bool) -> Tensor:
    matrix: Tensor = mode_for(_Matrix, _MatrixForward).apply(A, values, U, V, g, symmetric)
    return matrix


def _diagonal(U: Tensor, W: Tensor, V: Tensor) -> Tensor:
    """The diagonal of ``U^T W V``, without the rest."""
    return (U * (W @ V)).sum(-2)


def _alive(values: Tensor, symmetric: bool) -> Tensor:
    """Singular values that are zero have vectors of their own on each side: no gradient goes there."""
    return torch.ones_like(values, dtype=torch.bool) if symmetric else values > roundoff(values)


def _check_simple(values: Tensor, symmetric: bool) -> None:
    """Raise where two values are equal, or a singular value is zero, to working precision."""
    if not may_check(values) or values.shape[-1] == 0:
        return
    level = roundoff(values)
    bad = (values.diff(dim=-1).abs() <= level).any(-1)
    what, name = "equal eigenvalues", "eigvalsh"
    if not symmetric:
        bad = bad | (values <= level).any(-1)
        what, name = "equal or zero singular values", "svdvals"
    if bool(bad.any()):
        raise LinAlgError(
            f"the second derivative of {name} at {name_item(first_index(bad))} needs more of the loss "
            f"than its gradient, because the matrix has {what}; write the loss as the trace of a "
            "matrix function, which is exact there"
        )


# --------------------------------------------------------------------------------------------------
# Without a gradient no vectors are needed


def _values_only(name: str, run: Any, solver: Solver, place: int) -> Solver:
    """A solver for the factor at ``place`` alone; what fails is tried again with the vectors."""

    def ladder(A: Tensor) -> Any:
        for attempt in solver.ladder(A):
            yield lambda attempt=attempt: (attempt()[place],)

    def allocate(A: Tensor) -> Factors:
        return (A.new_empty(*A.shape[:-2], min(A.shape[-2:])),)

    return Solver(name, lambda A: (run(A),), allocate, solver.reads, ladder)


_EIGVALSH = _values_only("eigvalsh", torch.linalg.eigvalsh, EIGH, 0)
_SVDVALS = _values_only("svdvals", torch.linalg.svdvals, SVD[False], 1)


def _values(A: Tensor, symmetric: bool, solver_device: str | torch.device | None) -> Tensor:
    if is_plain(A) and not is_watched(A):
        solver, caller = (_EIGVALSH, "eigvalsh") if symmetric else (_SVDVALS, "svdvals")
        (alone,) = _solve(solver, A.to(solver_device) if solver_device else A, caller)
        return alone.to(A.device)
    kind = mode_for(_Values, _ValuesForward)
    values: Tensor = kind.apply(A, symmetric, solver_device)[0]
    return values


@without_autocast
def eigvalsh(A: Tensor, *, solver_device: str | torch.device | None = None) -> Tensor:
    r"""Eigenvalues of symmetric ``A`` with the gradient :math:`U\, \mathrm{diag}(g)\, U^T`.

    A drop-in for :func:`torch.linalg.eigvalsh`: the lower triangle alone is read, and the gradient is
    symmetric. At ties it is right for every loss that does not depend on the order of equal
    eigenvalues. Second derivatives are right where the eigenvalues differ, and an error at ties; for
    losses that are sums over eigenvalues use the trace of :func:`matrix_function`, which has them.

    Args:
        A: symmetric matrices ``(..., n, n)``, float32 or float64.
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
    return _values(A, True, solver_device)


@without_autocast
def svdvals(A: Tensor, *, solver_device: str | torch.device | None = None) -> Tensor:
    r"""Singular values of ``A`` with the gradient :math:`U\, \mathrm{diag}(g)\, V^T`.

    A drop-in for :func:`torch.linalg.svdvals`. Equal singular values are as in :func:`eigvalsh`. A
    singular value that is zero (at round-off level, ``2 sqrt(k) eps max(s)``) has no derivative: no
    gradient flows there, which for the nuclear norm is the subgradient of least norm. Second
    derivatives are right where the singular values differ and none is zero, and an error elsewhere.

    Args:
        A: matrices ``(..., m, n)``, float32 or float64.
        solver_device: where to decompose, as in :func:`eigh`.

    Returns:
        Singular values ``(..., min(m, n))`` in descending order.

    >>> A = torch.zeros(3, 2, requires_grad=True)
    >>> svdvals(A).sum().backward()  # the nuclear norm of a zero matrix
    >>> bool((A.grad == 0).all())
    True
    """
    check_matrix(A, "svdvals")
    return _values(A, False, solver_device)
