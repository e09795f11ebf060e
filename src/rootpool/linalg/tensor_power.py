r"""Matrix powers whose exponent is a tensor, and learnable.

With :math:`M = U^H G\, U` for the gradient G of :math:`A^p = U \Lambda^p U^H`,

.. math:: \bar p = \sum_i \mathrm{Re}\, M_{ii}\, \lambda_i^p \log \lambda_i,

where zero eigenvalues contribute 0 for p > 0. The gradient of A is that of every matrix function.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.linalg import LinAlgError

from .checks import check_range, checked_like_forward, first_index, may_check, name_item
from .decompose import eigh_forward
from .differentiation import Differentiable, apply, hermitian_part, remember
from .precision import without_autocast
from .scalar import power_difference

__all__ = ["tensor_power"]


def _check_exponent(p: Tensor, lam: Tensor) -> None:
    if not may_check(p) or not may_check(lam):
        return
    if not bool(p.isfinite().all()):
        raise ValueError(f"the exponent must be finite, got {p[~p.isfinite()][0].item()}")
    broken = (p < 0) & (lam == 0).any(-1)
    if broken.any():
        raise LinAlgError(
            f"powm with a negative exponent expects positive definite matrices, but "
            f"{name_item(first_index(broken))} is singular to working precision; add a ridge"
        )


def _slopes(lam: Tensor, p: Tensor) -> Tensor:
    """``lam^p log(lam)``, the derivative in p; 0 at zero eigenvalues."""
    positive = torch.where(lam > 0, lam, 1)
    return positive ** p.unsqueeze(-1) * positive.log()


def _coefficients(lam: Tensor, p: Tensor) -> Tensor:
    lam_i, lam_j = lam.unsqueeze(-1), lam.unsqueeze(-2)
    exponent = p[..., None, None]
    slope = power_difference(torch.maximum(lam_i, lam_j), torch.minimum(lam_i, lam_j), exponent)
    null = torch.maximum(lam_i, lam_j) == 0
    return torch.where(null, (exponent == 1).to(lam.dtype), slope)


class _Power(Differentiable):
    @staticmethod
    def forward(
        A: Tensor, p: Tensor, solver_device: str | torch.device | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        lam, U = eigh_forward(A, "nonnegative", "powm", solver_device)
        _check_exponent(p, lam)
        F = (U * (lam ** p.unsqueeze(-1)).unsqueeze(-2)) @ U.mH
        check_range(F, "powm")
        return F, lam, U

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        A, p, _ = inputs
        ctx.mark_non_differentiable(*output[1:])
        remember(ctx, A, p, *output[1:])

    @staticmethod
    @checked_like_forward
    @without_autocast
    def backward(ctx: Any, G: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        if G is None:
            return None, None, None
        return *apply(_Gradient, *ctx.saved_tensors, G), None

    @staticmethod
    def tangent(
        ctx: Any, saved: tuple[Tensor, ...], dA: Tensor | None, dp: Tensor | None, _: None
    ) -> tuple[Tensor | None, ...]:
        A, p, _lam, _U = saved
        dA = torch.zeros_like(A) if dA is None else dA
        dp = torch.zeros_like(p) if dp is None else dp
        return apply(_Tangent, *saved, dA, dp), None, None


class _Once(Differentiable):
    """A first derivative; a further one is refused."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: object) -> None:
        ctx.checked = True

    @staticmethod
    def backward(ctx: Any, *_: object) -> tuple[None, ...]:
        raise RuntimeError(
            "second derivatives of powm with a tensor as exponent are not implemented; a number as "
            "exponent has them"
        )

    tangent = backward


class _Gradient(_Once):
    @staticmethod
    def forward(A: Tensor, p: Tensor, lam: Tensor, U: Tensor, G: Tensor) -> tuple[Tensor, Tensor]:
        M = U.mH @ G @ U
        diagonal = M.diagonal(dim1=-2, dim2=-1)
        diagonal = diagonal.real if M.is_complex() else diagonal
        g_A = U @ hermitian_part(_coefficients(lam, p) * M) @ U.mH
        check_range(g_A, "the derivative of powm", G)
        return g_A, (diagonal * _slopes(lam, p)).sum(-1)


class _Tangent(_Once):
    @staticmethod
    def forward(A: Tensor, p: Tensor, lam: Tensor, U: Tensor, dA: Tensor, dp: Tensor) -> Tensor:
        inner = _coefficients(lam, p) * (U.mH @ hermitian_part(dA) @ U)
        return U @ (inner + torch.diag_embed(_slopes(lam, p) * dp.unsqueeze(-1))) @ U.mH


@without_autocast
def tensor_power(
    A: Tensor, exponent: Tensor, *, solver_device: str | torch.device | None = None
) -> Tensor:
    """``A^p`` for ``A`` ``(..., n, n)`` and exponents ``(...)``, which broadcast with the batch."""
    real = A.real.dtype if A.is_complex() else A.dtype
    if exponent.is_complex():
        raise TypeError(f"powm expects a real exponent, got {exponent.dtype}")
    lead = torch.broadcast_shapes(A.shape[:-2], exponent.shape)
    A = A.expand(*lead, *A.shape[-2:])
    p = exponent.to(A.device, real).expand(lead)
    result: Tensor = apply(_Power, A, p, solver_device)[0]
    return result
