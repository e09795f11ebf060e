r"""Functions of matrices with parameters that are learned.

With :math:`M = U^H G\, U` for the gradient G of :math:`f_p(A) = U f_p(\Lambda) U^H`,

.. math:: \bar p = \sum_i \mathrm{Re}\, M_{ii}\, \partial_p f_p(\lambda_i).

The gradient of A is that of every matrix function.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from .checks import check_range, checked_like_forward, may_check
from .decompose import eigh_forward
from .differentiation import Differentiable, apply, hermitian_part, remember
from .precision import without_autocast

__all__ = ["ParametricFunction", "parametric_function"]


class ParametricFunction(ABC):
    """A function of non-negative eigenvalues ``(..., n)`` and parameters ``(..., k)`` or ``(k,)``."""

    @property
    @abstractmethod
    def caller(self) -> str:
        """What users call it, in errors."""

    @property
    @abstractmethod
    def once(self) -> str:
        """The error of a second derivative: what is not implemented, and what to use instead."""

    @abstractmethod
    def values(self, lam: Tensor, parameters: Tensor) -> Tensor:
        """``f(lam_i)``, ``(..., n)``."""

    @abstractmethod
    def differences(self, lam: Tensor, parameters: Tensor) -> Tensor:
        """``f[lam_i, lam_j]``, ``(..., n, n)``, without cancellation."""

    @abstractmethod
    def parameter_derivatives(self, lam: Tensor, parameters: Tensor) -> Tensor:
        """The derivatives of ``f(lam_i)`` by the parameters, ``(..., n, k)``."""

    def check(self, lam: Tensor, parameters: Tensor) -> None:  # noqa: B027
        """Raise where the function is not defined; called if values may be looked at."""


class _Value(Differentiable):
    @staticmethod
    def forward(
        A: Tensor, p: Tensor, f: ParametricFunction, solver_device: str | torch.device | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        lam, U = eigh_forward(A, "nonnegative", f.caller, solver_device)
        if may_check(p) and may_check(lam):
            f.check(lam, p)
        F = (U * f.values(lam, p).unsqueeze(-2)) @ U.mH
        check_range(F, f.caller)
        return F, lam, U

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        A, p, ctx.f, _ = inputs
        ctx.mark_non_differentiable(*output[1:])
        remember(ctx, A, p, *output[1:])

    @staticmethod
    @checked_like_forward
    @without_autocast
    def backward(ctx: Any, G: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        if G is None:
            return None, None, None, None
        return *apply(_Gradient, *ctx.saved_tensors, G, ctx.f), None, None

    @staticmethod
    def tangent(
        ctx: Any, saved: tuple[Tensor, ...], dA: Tensor | None, dp: Tensor | None, *_: None
    ) -> tuple[Tensor | None, ...]:
        A, p, _lam, _U = saved
        dA = torch.zeros_like(A) if dA is None else dA
        dp = torch.zeros_like(p) if dp is None else dp
        return apply(_Tangent, *saved, dA, dp, ctx.f), None, None


class _Once(Differentiable):
    """A first derivative; a further one is refused."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: object) -> None:
        ctx.checked, ctx.f = True, inputs[-1]

    @staticmethod
    def backward(ctx: Any, *_: object) -> tuple[None, ...]:
        raise RuntimeError(ctx.f.once)

    tangent = backward


class _Gradient(_Once):
    @staticmethod
    def forward(
        A: Tensor, p: Tensor, lam: Tensor, U: Tensor, G: Tensor, f: ParametricFunction
    ) -> tuple[Tensor, Tensor]:
        M = U.mH @ G @ U
        diagonal = M.diagonal(dim1=-2, dim2=-1)
        diagonal = diagonal.real if M.is_complex() else diagonal
        g_A = U @ hermitian_part(f.differences(lam, p) * M) @ U.mH
        check_range(g_A, f"the derivative of {f.caller}", G)
        slopes = f.parameter_derivatives(lam, p)
        return g_A, (diagonal.unsqueeze(-1) * slopes).sum(-2).sum_to_size(p.shape)


class _Tangent(_Once):
    @staticmethod
    def forward(
        A: Tensor,
        p: Tensor,
        lam: Tensor,
        U: Tensor,
        dA: Tensor,
        dp: Tensor,
        f: ParametricFunction,
    ) -> Tensor:
        inner = f.differences(lam, p) * (U.mH @ hermitian_part(dA) @ U)
        change = (f.parameter_derivatives(lam, p) * dp.unsqueeze(-2)).sum(-1)
        return U @ (inner + torch.diag_embed(change)) @ U.mH


@without_autocast
def parametric_function(
    A: Tensor,
    parameters: Tensor,
    f: ParametricFunction,
    *,
    solver_device: str | torch.device | None = None,
) -> Tensor:
    """``f(A)`` for semi-definite ``A`` ``(..., n, n)``, once differentiable in both."""
    result: Tensor = apply(_Value, A, parameters, f, solver_device)[0]
    return result
