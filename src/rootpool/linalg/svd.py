r"""Singular value decomposition with a selectable gradient.

With :math:`A = U S V^H` (thin), :math:`X = U^H dA\, V`, and the antihermitian
:math:`\Omega_U = U^H dU`, :math:`\Omega_V = V^H dV`, differentiating gives
:math:`X = \Omega_U S + dS - S \Omega_V`. Its Hermitian and antihermitian parts decouple:

.. math::
    (\Omega_U + \Omega_V)_{ij} = K_{ji} (X + X^H)_{ij}, \qquad
    (\Omega_U - \Omega_V)_{ij} = \frac{(X - X^H)_{ij}}{s_i + s_j}, \qquad K_{ij} = \frac{1}{s_i - s_j}.

So only the first has the kernel of an eigendecomposition, of the singular values themselves (they
are the eigenvalues of :math:`\begin{psmallmatrix} 0 & A \\ A^H & 0 \end{psmallmatrix}`, and of ``A``
when it is positive semi-definite). For complex matrices the diagonal of the second fixes the phases of
the columns of U against those of V; the phase that each pair shares is free, and does not change here.
With :math:`C_U = U^H \bar U`, :math:`C_V = V^H \bar V` the transpose of that map is

.. math::
    \bar X = \mathrm{diag}(\bar s) + \tfrac12 K^T \circ \mathrm{skew}(C_U + C_V)
             + \tfrac12\, \mathrm{skew}(C_U - C_V) / (s_i + s_j), \qquad \mathrm{skew}(C) = C - C^H,

to which the parts of :math:`\bar U, \bar V` outside the ranges of U and V add
:math:`(I - U U^H)\, \bar U S^{-1} V^H` and :math:`U S^{-1} \bar V^H (I - V V^H)`.

Where singular values are zero (to working precision) the last two and the antisymmetric part are
infinite: there the basis of the null space is arbitrary, a loss that is differentiable does not
depend on it, and these coefficients are 0.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .by_torch import Known, decomposed
from .checks import VECTOR_ADVICE, check_matrix, check_range, checked_like_forward, needs_grad
from .decompose import roundoff, svd_forward
from .differentiation import Differentiable, apply, remember
from .precision import product, without_autocast
from .rules import Degenerate, Rule, eigenvector_term, resolve_rule


class SVDResult(NamedTuple):
    """``U`` ``(..., m, k)``, singular values ``S`` ``(..., k)`` descending, ``Vh`` ``(..., k, n)``."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def _first(U: Tensor, k: int) -> Tensor:
    """The first columns; a slice of all of them would be an operator that older vmaps do not know."""
    return U if U.shape[-1] == k else U[..., :k]


def _reciprocal_or_zero(values: Tensor, level: Tensor) -> Tensor:
    null = values <= level
    return torch.where(null, 0, 1 / torch.where(null, 1, values))


def _reciprocals(s: Tensor) -> tuple[Tensor, Tensor]:
    """``1 / (s_i + s_j)`` and ``1 / s_j`` to broadcast; 0 where singular values are zero."""
    level = roundoff(s).unsqueeze(-1)
    sums = _reciprocal_or_zero(s.unsqueeze(-1) + s.unsqueeze(-2), 2 * level)
    return sums, _reciprocal_or_zero(s, level[..., 0]).unsqueeze(-2)


class _SVD(Differentiable):
    saves_outputs = True

    @staticmethod
    def forward(
        A: Tensor,
        rule: Rule,
        full_matrices: bool,
        solver_device: str | torch.device | None,
        known: Known | None,
    ) -> Known:
        return known or svd_forward(A, full_matrices, solver_device)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.rule = inputs[1]
        remember(ctx, *output)

    @staticmethod
    @checked_like_forward
    @without_autocast
    def backward(
        ctx: Any, g_U: Tensor | None, g_s: Tensor | None, g_Vh: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        U, s, Vh = ctx.saved_tensors
        if g_U is None and g_s is None and g_Vh is None:
            return None, None, None, None, None
        k = s.shape[-1]
        U, V = _first(U, k), _first(Vh.mH, k)
        inner = torch.diag_embed(torch.zeros_like(s) if g_s is None else g_s).to(U.dtype)
        if g_U is None and g_Vh is None:
            return product(product(U, inner), V.mH), None, None, None, None

        g_U = torch.zeros_like(U) if g_U is None else _first(g_U, k)
        g_V = torch.zeros_like(V) if g_Vh is None else _first(g_Vh.mH, k)
        C_U, C_V = product(U.mH, g_U), product(V.mH, g_V)
        apart = C_U - C_V
        sums, inverse = _reciprocals(s)
        inner = inner + eigenvector_term(ctx.rule, s, C_U + C_V, g_s)
        inner = inner + sums * (apart - apart.mH) / 2

        g_A = product(product(U, inner), V.mH)
        if U.shape[-2] > k:
            g_A = g_A + product((g_U - product(U, C_U)) * inverse, V.mH)
        if V.shape[-2] > k:
            g_A = g_A + product(U, ((g_V - product(V, C_V)) * inverse).mH)
        upstream = [g for g in (g_U, g_s, g_V) if g is not None]
        check_range(g_A, "the gradient of svd", *upstream, advice=VECTOR_ADVICE)
        return g_A, None, None, None, None

    @staticmethod
    def tangent(ctx: Any, saved: tuple[Tensor, ...], dA: Tensor, *_: None) -> tuple[Tensor, ...]:
        full_U, s, full_Vh = saved
        k = s.shape[-1]
        U, V = _first(full_U, k), _first(full_Vh.mH, k)
        right, left = product(dA, V), product(dA.mH, U)
        X = product(U.mH, right)
        sums, inverse = _reciprocals(s)
        total, apart = ctx.rule(s).mT * (X + X.mH), sums * (X - X.mH)
        dU, dV = product(U, total + apart) / 2, product(V, total - apart) / 2
        if U.shape[-2] > k:
            dU = dU + (right - product(U, X)) * inverse
        if V.shape[-2] > k:
            dV = dV + (left - product(V, X.mH)) * inverse
        # The columns beyond k are an arbitrary basis, which stays as it is.
        dU = torch.cat([dU, torch.zeros_like(full_U[..., k:])], -1)
        dVh = torch.cat([dV.mH, torch.zeros_like(full_Vh[..., k:, :])], -2)
        return dU, X.diagonal(dim1=-2, dim2=-1).real, dVh


@without_autocast
def svd(
    A: Tensor,
    full_matrices: bool = False,
    *,
    rule: str | Rule = "degenerate",
    solver_device: str | torch.device | None = None,
) -> SVDResult:
    r"""Singular value decomposition :math:`A = U \,\mathrm{diag}(S)\, V^H` with a finite gradient.

    A drop-in for :func:`torch.linalg.svd` in arguments, values and order (but thin by default). The
    rule acts on the kernel of the singular values, which are the eigenvalues when ``A`` is a
    covariance. With ``full_matrices=True`` the derivatives of the columns beyond ``min(m, n)``, an
    arbitrary basis, are ignored, as in torch.

    Args:
        A: matrices ``(..., m, n)``, real or complex, of single or double precision.
        full_matrices: return square ``U`` and ``Vh``.
        rule: as in :func:`eigh`.
        solver_device: as in :func:`eigh`.

    Returns:
        ``U`` ``(..., m, k)``, ``S`` ``(..., k)`` descending and ``Vh`` ``(..., k, n)``,
        ``k = min(m, n)``.

    >>> A = torch.eye(3, 2, requires_grad=True)
    >>> U, S, Vh = svd(A)
    >>> (U @ Vh).sum().backward()  # the polar factor, at two equal singular values
    >>> A.grad
    tensor([[0., 0.],
            [0., 0.],
            [1., 1.]])
    """
    check_matrix(A, "svd")
    if not isinstance(full_matrices, bool):
        raise TypeError(
            f"full_matrices must be True or False, got {full_matrices!r}; a gradient rule is given "
            "by name: rule='degenerate'"
        )
    kernel = resolve_rule(rule)
    if not needs_grad(A):
        return SVDResult(*svd_forward(A, full_matrices, solver_device))
    known, settled = None, False
    if solver_device is None and isinstance(kernel, Degenerate) and not full_matrices:
        simple = lambda factors: _is_simple(factors[1], kernel)  # noqa: E731
        known, settled = decomposed(_thin, A, simple, "svd")
    if known is not None and settled:
        return SVDResult(*known)
    return SVDResult(*apply(_SVD, A, kernel, full_matrices, solver_device, known))


def _thin(A: Tensor) -> tuple[Tensor, ...]:
    U, s, Vh = torch.linalg.svd(A, full_matrices=False)
    return U, s, Vh


def _is_simple(s: Tensor, rule: Degenerate) -> bool:
    """Whether torch's derivative, which divides by differences of squares, loses nothing by that."""
    info = torch.finfo(s.dtype)
    apart = max(math.sqrt(info.eps), rule.relative_tolerance(s))
    least, largest = (end.item() for end in s.aminmax())
    if not (info.tiny**0.25 < least and apart * largest < least and largest < info.max**0.25):
        return False
    return Degenerate(apart).has_no_ties(s)
