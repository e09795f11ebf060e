r"""Singular value decomposition with a selectable gradient.

With :math:`A = U S V^T` (thin), :math:`X = U^T dA\, V`, and the antisymmetric
:math:`\Omega_U = U^T dU`, :math:`\Omega_V = V^T dV`, differentiating gives
:math:`X = \Omega_U S + dS - S \Omega_V`. Its symmetric and antisymmetric parts decouple:

.. math::
    (\Omega_U + \Omega_V)_{ij} = K_{ji} (X + X^T)_{ij}, \qquad
    (\Omega_U - \Omega_V)_{ij} = \frac{(X - X^T)_{ij}}{s_i + s_j}, \qquad K_{ij} = \frac{1}{s_i - s_j}.

So only the first has the kernel of an eigendecomposition, of the singular values themselves (they
are the eigenvalues of :math:`\begin{psmallmatrix} 0 & A \\ A^T & 0 \end{psmallmatrix}`, and of ``A``
when it is positive semi-definite). With :math:`C_U = U^T \bar U`, :math:`C_V = V^T \bar V` the
transpose of that map is

.. math::
    \bar X = \mathrm{diag}(\bar s) + \tfrac12 K^T \circ \mathrm{skew}(C_U + C_V)
             + \tfrac12\, \mathrm{skew}(C_U - C_V) / (s_i + s_j), \qquad \mathrm{skew}(C) = C - C^T,

to which the parts of :math:`\bar U, \bar V` outside the ranges of U and V add
:math:`(I - U U^T)\, \bar U S^{-1} V^T` and :math:`U S^{-1} \bar V^T (I - V V^T)`.

Where singular values are zero (to working precision) the last two and the antisymmetric part are
infinite: there the basis of the null space is arbitrary, a loss that is differentiable does not
depend on it, and these coefficients are 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from ._precision import without_autocast
from .checks import (
    VECTOR_ADVICE,
    check_matrix,
    check_range,
    checked_like_forward,
    checks_enabled,
)
from .decompose import roundoff, svd_forward
from .rules import Rule, resolve_rule, rotation

__all__ = ["SVDResult", "svd"]


class SVDResult(NamedTuple):
    """``U`` ``(..., m, k)``, singular values ``S`` ``(..., k)`` descending, ``Vh`` ``(..., k, n)``."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def _reciprocal_or_zero(values: Tensor, level: Tensor) -> Tensor:
    null = values <= level
    return torch.where(null, 0, 1 / torch.where(null, 1, values))


class _SVD(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(
        A: Tensor,
        rule: Rule,
        full_matrices: bool,
        solver_device: str | torch.device | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        return svd_forward(A, full_matrices, solver_device)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*output)
        ctx.rule, ctx.checked = inputs[1], checks_enabled()

    @staticmethod
    @checked_like_forward
    @without_autocast
    def backward(
        ctx: Any, g_U: Tensor | None, g_s: Tensor | None, g_Vh: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        U, s, Vh = ctx.saved_tensors
        if g_U is None and g_s is None and g_Vh is None:
            return None, None, None, None
        k = s.shape[-1]
        U, V = U[..., :k], Vh[..., :k, :].mT
        inner = torch.diag_embed(torch.zeros_like(s) if g_s is None else g_s)
        if g_U is None and g_Vh is None:
            return U @ inner @ V.mT, None, None, None

        g_U = torch.zeros_like(U) if g_U is None else g_U[..., :k]
        g_V = torch.zeros_like(V) if g_Vh is None else g_Vh[..., :k, :].mT
        C_U, C_V = U.mT @ g_U, V.mT @ g_V
        apart = C_U - C_V
        level = roundoff(s).unsqueeze(-1)
        sums = _reciprocal_or_zero(s.unsqueeze(-1) + s.unsqueeze(-2), 2 * level)
        inner = inner + rotation(ctx.rule, s, C_U + C_V)
        inner = inner + sums * (apart - apart.mT) / 2

        inverse = _reciprocal_or_zero(s, level[..., 0]).unsqueeze(-2)
        g_A = U @ inner @ V.mT
        if U.shape[-2] > k:
            g_A = g_A + ((g_U - U @ C_U) * inverse) @ V.mT
        if V.shape[-2] > k:
            g_A = g_A + U @ ((g_V - V @ C_V) * inverse).mT
        upstream = [g for g in (g_U, g_s, g_V) if g is not None]
        check_range(g_A, "the gradient of svd", *upstream, advice=VECTOR_ADVICE)
        return g_A, None, None, None


@without_autocast
def svd(
    A: Tensor,
    rule: str | Rule = "pade",
    full_matrices: bool = False,
    *,
    solver_device: str | torch.device | None = None,
) -> SVDResult:
    r"""Singular value decomposition :math:`A = U \,\mathrm{diag}(S)\, V^T` with a finite gradient.

    A drop-in for :func:`torch.linalg.svd` in values and order (but thin by default). The rule acts
    on the kernel of the singular values, which are the eigenvalues when ``A`` is a covariance.
    With ``full_matrices=True`` the gradients of the columns beyond ``min(m, n)``, an arbitrary basis,
    are ignored, as in torch.

    Args:
        A: matrices ``(..., m, n)``, float32 or float64.
        rule: as in :func:`eigh`.
        full_matrices: return square ``U`` and ``Vh``.
        solver_device: as in :func:`eigh`.

    Returns:
        ``U`` ``(..., m, k)``, ``S`` ``(..., k)`` descending and ``Vh`` ``(..., k, n)``,
        ``k = min(m, n)``.

    >>> A = torch.zeros(3, 2, requires_grad=True)
    >>> U, S, Vh = svd(A)
    >>> (U * S @ Vh).sum().backward()
    >>> bool(A.grad.isfinite().all())
    True
    """
    check_matrix(A, "svd")
    return SVDResult(*_SVD.apply(A, resolve_rule(rule), full_matrices, solver_device))
