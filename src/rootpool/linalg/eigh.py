r"""Eigendecomposition with a selectable gradient.

With :math:`A = U \Lambda U^H` and :math:`E = U^H dA\, U`, perturbation theory (e.g. Ionescu et al.
2015) gives

.. math:: d\lambda_i = E_{ii}, \qquad dU = U (K^T \circ E), \qquad K_{ij} = 1/(\lambda_i - \lambda_j),

and, for upstream gradients :math:`\bar\lambda` and :math:`\bar U`, the transpose of that map:

.. math:: \bar A = U \left( K^T \circ (U^H \bar U) + \mathrm{diag}(\bar\lambda) \right) U^H,

of which the Hermitian part counts, since :math:`dA` is Hermitian. A rule stands in for :math:`K`. The
diagonal of :math:`E` is real: the phases of complex eigenvectors are free, and do not change here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from .by_torch import Known, decomposed
from .checks import (
    VECTOR_ADVICE,
    check_range,
    check_square,
    checked_like_forward,
    checks_enabled,
    is_concrete,
    lower_triangle,
    needs_grad,
)
from .decompose import eigh_forward
from .differentiation import Differentiable, apply, hermitian_part, remember
from .generalized import check_pair, tie_tolerance, whitened
from .parallel import batchwise
from .precision import product, without_autocast
from .rules import Degenerate, Rule, eigenvector_term, resolve_rule
from .solvers import is_tiny


class EighResult(NamedTuple):
    """Eigenvalues ``(..., n)`` in ascending order and eigenvectors ``(..., n, n)`` in columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class _Eigh(Differentiable):
    saves_outputs = True

    @staticmethod
    def forward(
        A: Tensor, rule: Rule, solver_device: str | torch.device | None, known: Known | None
    ) -> Known:
        return known or eigh_forward(A, "triangle", "eigh", solver_device)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.rule = inputs[1]
        remember(ctx, *output)

    @staticmethod
    @checked_like_forward
    @without_autocast
    def backward(ctx: Any, g_lam: Tensor | None, g_U: Tensor | None) -> tuple[Tensor | None, ...]:
        lam, U = ctx.saved_tensors
        if g_lam is None and g_U is None:
            return None, None, None, None
        return _gradient(ctx.rule, lam, U, g_lam, g_U), None, None, None

    @staticmethod
    def tangent(ctx: Any, saved: tuple[Tensor, ...], dA: Tensor, *_: None) -> tuple[Tensor, Tensor]:
        lam, U = saved
        # Hermitian to the bit: what rounding leaves of a skew part would be divided by the smallest gaps.
        E = hermitian_part(product(product(U.mH, dA), U))
        return E.diagonal(dim1=-2, dim2=-1).real, product(U, ctx.rule(lam).mT * E)


def _gradient(
    rule: Rule, lam: Tensor, U: Tensor, g_lam: Tensor | None, g_U: Tensor | None
) -> Tensor:
    """The gradient with respect to A; at most one of both upstream gradients is absent."""

    def work(lam: Tensor, U: Tensor, *upstream: Tensor) -> tuple[Tensor]:
        slopes = None if g_lam is None else upstream[0]
        if g_U is None:  # nothing is divided by
            return (product(U * upstream[0].unsqueeze(-2), U.mH),)
        coupling = product(U.mH, upstream[-1])
        inner = product(U, eigenvector_term(rule, lam, coupling, slopes))
        if slopes is not None:
            inner = inner + U * slopes.unsqueeze(-2)
        gradient = product(inner, U.mH)
        check_range(gradient, "the gradient of eigh", *upstream, advice=VECTOR_ADVICE)
        return (gradient,)

    present = [(g, dims) for g, dims in ((g_lam, 1), (g_U, 2)) if g is not None]
    tensors = [lam, U, *(g for g, _ in present)]
    several = lam.dim() > 1 and U.device.type == "cpu" and is_concrete(*tensors)
    if not several or needs_grad(*tensors) or not isinstance(rule, Degenerate):
        return work(*tensors)[0]
    if checks_enabled() and not rule.has_no_ties(lam):
        return work(*tensors)[0]  # it may warn, and in pieces would do so for each of them
    trailing = [1, 2, *(dims for _, dims in present)]
    return batchwise(work, *tensors, trailing=trailing, effort=0.2)[0]


@without_autocast
def eigh(
    A: Tensor,
    UPLO: str = "L",
    *,
    B: Tensor | None = None,
    rule: str | Rule = "degenerate",
    solver_device: str | torch.device | None = None,
) -> EighResult:
    r"""Eigendecomposition :math:`A = U \,\mathrm{diag}(\lambda)\, U^H` whose gradient stays finite.

    A drop-in for :func:`torch.linalg.eigh` in arguments, values, order and what it reads (one triangle
    alone; the gradient is symmetric as well).

    A gradient of eigen*vectors* at a tie exists only for losses that take the eigenspace as a whole,
    such as functions of the projector on it. For these the default rule is exact, and for others it
    warns. What each rule does at ties is in its docstring. For functions of a matrix (roots,
    logarithm, powers) use :func:`sqrtm` and its relatives: they have an exact gradient everywhere.

    Args:
        A: symmetric or complex Hermitian matrices ``(..., n, n)`` of single or double precision.
        UPLO: the triangle to read, ``"L"`` or ``"U"``.
        B: positive definite matrices of the size and dtype of ``A``, for the generalised problem
            :math:`A U = B U \,\mathrm{diag}(\lambda)` with :math:`U^H B U = I`. Both matrices must then be
            symmetric as a whole, and ``UPLO`` does not matter.
        rule: name of a gradient rule in ``RULES``, or a rule, or any callable from eigenvalues
            ``(..., n)`` to a kernel ``(..., n, n)``.
        solver_device: where to decompose, ``"cpu"`` for matrices on an accelerator whose solver is
            slow or unreliable; results come back to the device of ``A``. Default: where ``A`` is.

    Returns:
        ``eigenvalues`` ``(..., n)`` ascending and ``eigenvectors`` ``(..., n, n)``.

    >>> A = torch.diag(torch.tensor([1.0, 2.0, 2.0])).requires_grad_()
    >>> plane = eigh(A).eigenvectors[:, 1:]  # of the eigenvalue 2, which is repeated
    >>> (plane @ plane.mT).sum().backward()
    >>> A.grad.abs()
    tensor([[0., 1., 1.],
            [1., 0., 0.],
            [1., 0., 0.]])
    """
    check_square(A, "eigh")
    if isinstance(UPLO, Tensor):
        raise TypeError(
            "eigh takes the second matrix of a generalised problem by name: eigh(A, B=B)"
        )
    A = lower_triangle(A, UPLO)
    if B is not None:
        check_pair(A, B, "eigh")
        C, R = whitened(A, B, "eigh")
        wider = Degenerate(tie_tolerance(B, R)) if rule in ("degenerate", Degenerate()) else rule
        eigenvalues, Y = eigh(C, rule=wider, solver_device=solver_device)
        return EighResult(eigenvalues, product(R, Y))
    kernel = resolve_rule(rule)
    if not needs_grad(A):
        return EighResult(*eigh_forward(A, "triangle", "eigh", solver_device))
    known, settled = None, False
    if solver_device is None and isinstance(kernel, Degenerate) and not is_tiny(A):
        simple = lambda pair: kernel.has_no_ties(pair[0])  # noqa: E731
        known, settled = decomposed(torch.linalg.eigh, A, simple, "eigh")
    if known is not None and settled:
        return EighResult(*known)
    return EighResult(*apply(_Eigh, A, kernel, solver_device, known))
