r"""Eigendecomposition with a selectable gradient.

With :math:`A = U \Lambda U^T` and :math:`E = U^T\, dA\, U`, perturbation theory (e.g. Ionescu et al.
2015) gives

.. math:: d\lambda_i = E_{ii}, \qquad dU = U (K^T \circ E), \qquad K_{ij} = 1/(\lambda_i - \lambda_j),

and, for upstream gradients :math:`\bar\lambda` and :math:`\bar U`, the transpose of that map:

.. math:: \bar A = U \left( K^T \circ (U^T \bar U) + \mathrm{diag}(\bar\lambda) \right) U^T,

of which the symmetric part counts, since :math:`dA` is symmetric. A rule stands in for :math:`K`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from ._precision import without_autocast
from .checks import (
    VECTOR_ADVICE,
    check_range,
    check_square,
    checked_like_forward,
    checks_enabled,
    is_plain,
)
from .decompose import eigh_forward
from .rules import Rule, resolve_rule, rotation

__all__ = ["EighResult", "eigh"]


class EighResult(NamedTuple):
    """Eigenvalues ``(..., n)`` in ascending order and eigenvectors ``(..., n, n)`` in columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class _Eigh(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(
        A: Tensor, rule: Rule, solver_device: str | torch.device | None
    ) -> tuple[Tensor, Tensor]:
        return eigh_forward(A, "triangle", "eigh", solver_device)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*output)
        ctx.rule, ctx.checked = inputs[1], checks_enabled()

    @staticmethod
    @checked_like_forward
    @without_autocast
    def backward(ctx: Any, g_lam: Tensor | None, g_U: Tensor | None) -> tuple[Tensor | None, ...]:
        lam, U = ctx.saved_tensors
        inner = None if g_lam is None else torch.diag_embed(g_lam)
        if g_U is not None:
            turn = rotation(ctx.rule, lam, U.mT @ g_U)
            inner = turn if inner is None else inner + turn
        if inner is None:
            return None, None, None
        gradient = U @ inner @ U.mT
        upstream = [g for g in (g_lam, g_U) if g is not None]
        check_range(gradient, "the gradient of eigh", *upstream, advice=VECTOR_ADVICE)
        return gradient, None, None


@without_autocast
def eigh(
    A: Tensor,
    rule: str | Rule = "pade",
    *,
    solver_device: str | torch.device | None = None,
) -> EighResult:
    r"""Eigendecomposition :math:`A = U \,\mathrm{diag}(\lambda)\, U^T` whose gradient stays finite.

    A drop-in for :func:`torch.linalg.eigh` in values, order and what it reads (the lower triangle
    alone; the gradient is that of a symmetric matrix, and symmetric itself).

    A gradient of eigen*vectors* at a tie exists only for losses that do not depend on the basis
    inside the eigenspace; what each rule does there is in its docstring. For functions of a matrix
    (roots, logarithm, powers) use :func:`sqrtm` and its relatives: they have an exact gradient
    everywhere.

    Args:
        A: symmetric matrices ``(..., n, n)``, float32 or float64.
        rule: name of a gradient rule in ``RULES``, or a rule, or any callable from eigenvalues
            ``(..., n)`` to a kernel ``(..., n, n)``.
        solver_device: where to decompose, ``"cpu"`` for matrices on an accelerator whose solver is
            slow or unreliable; results come back to the device of ``A``. Default: where ``A`` is.

    Returns:
        ``eigenvalues`` ``(..., n)`` ascending and ``eigenvectors`` ``(..., n, n)``.

    >>> A = torch.eye(2, requires_grad=True)
    >>> eigenvalues, eigenvectors = eigh(A)
    >>> ((eigenvectors * eigenvalues.sqrt()) @ eigenvectors.mT).sum().backward()
    >>> bool(A.grad.isfinite().all())
    True
    """
    check_square(A, "eigh")
    kernel = resolve_rule(rule)
    if is_plain(A) and not (A.requires_grad and torch.is_grad_enabled()):
        return EighResult(*eigh_forward(A, "triangle", "eigh", solver_device))
    return EighResult(*_Eigh.apply(A, kernel, solver_device))
