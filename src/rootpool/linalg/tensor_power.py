r"""Matrix powers whose exponent is a tensor, and learnable.

The derivative by the exponent is :math:`\lambda^p \log \lambda`, where zero eigenvalues contribute 0 for
p > 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.linalg import LinAlgError

from .checks import first_index, name_item
from .parametric import ParametricFunction, parametric_function
from .scalar import power_difference

__all__ = ["tensor_power"]


@dataclass(frozen=True)
class _Power(ParametricFunction):
    """``lam^p`` for exponents ``(..., 1)``."""

    @property
    def caller(self) -> str:
        return "powm"

    @property
    def once(self) -> str:
        return (
            "second derivatives of powm with a tensor as exponent are not implemented; a number as "
            "exponent has them"
        )

    def check(self, lam: Tensor, p: Tensor) -> None:
        if not bool(p.isfinite().all()):
            raise ValueError(f"the exponent must be finite, got {p[~p.isfinite()][0].item()}")
        broken = (p[..., 0] < 0) & (lam == 0).any(-1)
        if broken.any():
            raise LinAlgError(
                f"powm with a negative exponent expects positive definite matrices, but "
                f"{name_item(first_index(broken))} is singular to working precision; add a ridge"
            )

    def values(self, lam: Tensor, p: Tensor) -> Tensor:
        return lam**p

    def differences(self, lam: Tensor, p: Tensor) -> Tensor:
        lam_i, lam_j = lam.unsqueeze(-1), lam.unsqueeze(-2)
        exponent = p.unsqueeze(-1)
        slope = power_difference(torch.maximum(lam_i, lam_j), torch.minimum(lam_i, lam_j), exponent)
        null = torch.maximum(lam_i, lam_j) == 0
        return torch.where(null, (exponent == 1).to(lam.dtype), slope)

    def parameter_derivatives(self, lam: Tensor, p: Tensor) -> Tensor:
        positive = torch.where(lam > 0, lam, 1)
        return (positive**p * positive.log()).unsqueeze(-1)


def tensor_power(
    A: Tensor, exponent: Tensor, *, solver_device: str | torch.device | None = None
) -> Tensor:
    """``A^p`` for ``A`` ``(..., n, n)`` and exponents ``(...)``, which broadcast with the batch."""
    real = A.real.dtype if A.is_complex() else A.dtype
    if exponent.is_complex():
        raise TypeError(f"powm expects a real exponent, got {exponent.dtype}")
    lead = torch.broadcast_shapes(A.shape[:-2], exponent.shape)
    A = A.expand(*lead, *A.shape[-2:])
    p = exponent.to(A.device, real).expand(lead).unsqueeze(-1)
    return parametric_function(A, p, _Power(), solver_device=solver_device)
