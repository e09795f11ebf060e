r"""Matrix powers whose exponent is a tensor, and learnable.

The exponent p is one entry more of the matrix: :math:`Z = (\mathrm{vec} A,\, p)`. With :math:`A = U \Lambda
U^H`, :math:`M = U^H G\, U` for the gradient G of :math:`A^p`, and the divided differences L of
:math:`\lambda^p`,

.. math:: \bar A = U (L \circ M) U^H, \qquad
          \bar p = \sum_i \mathrm{Re}\, M_{ii}\, \lambda_i^p \log \lambda_i,

where zero eigenvalues contribute 0 to the second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import torch
from torch import Tensor
from torch.linalg import LinAlgError

from .checks import bad_item, can_read_values, check_range, check_square
from .decompose import eigh_forward
from .differentiation import hermitian_part
from .precision import without_autocast
from .scalar import power_difference
from .smooth import Factors, Smooth, differentiable


@dataclass(frozen=True)
class _Power(Smooth):
    """``Z -> A^p``, ``(..., n n + 1)`` to ``(..., n, n)``; the factors are lam, U and p ``(..., 1)``."""

    name = "powm"

    n: int
    solver_device: str | torch.device | None
    eps: float  # as in eigh_forward

    def value(self, Z: Tensor) -> tuple[Tensor, ...]:
        A, p = self._split(Z)
        lam, U = eigh_forward(A, "nonnegative", self.name, self.solver_device, self.eps)
        if item := bad_item((p[..., 0] < 0) & (lam == 0).any(-1)):
            raise LinAlgError(
                f"powm with a negative exponent expects positive definite matrices, but {item} is singular "
                "to working precision; add a ridge"
            )
        F = (U * (lam**p).unsqueeze(-2)) @ U.mH
        check_range(F, self.name)
        return F, lam, U, p.clone()

    def like_value(self, Z: Tensor, factors: Factors) -> Tensor:
        return factors[1]

    def jvp(self, factors: Factors, dZ: Tensor) -> Tensor:
        lam, U, p = factors
        dA, dp = self._split(dZ)
        inner = _differences(lam, p) * (U.mH @ hermitian_part(dA) @ U)
        return U @ (inner + torch.diag_embed(_exponent_derivatives(lam, p) * dp)) @ U.mH

    def vjp(self, factors: Factors, g: Tensor) -> Tensor:
        lam, U, p = factors
        M = U.mH @ g @ U
        gradient = U @ hermitian_part(_differences(lam, p) * M) @ U.mH
        check_range(gradient, "the derivative of powm", g)
        diagonal = M.diagonal(dim1=-2, dim2=-1).real
        g_p = (diagonal * _exponent_derivatives(lam, p)).sum(-1, keepdim=True)
        # The older vmap of autograd knows no flatten.
        flat = gradient.reshape(*gradient.shape[:-2], self.n**2)
        return torch.cat([flat, g_p.to(g.dtype)], -1)

    def vjp_of_jvp(self, factors: Factors, g: Tensor, dA: Tensor) -> NoReturn:
        raise RuntimeError(
            "second derivatives of powm with a tensor as exponent are not implemented; a number as "
            "exponent has them"
        )

    jvp_of_jvp = vjp_of_jvp

    def _split(self, Z: Tensor) -> tuple[Tensor, Tensor]:
        A, p = Z[..., :-1], Z[..., -1:]
        return A.unflatten(-1, (self.n, self.n)), p.real


def _differences(lam: Tensor, p: Tensor) -> Tensor:
    """Divided differences ``(..., n, n)`` without cancellation."""
    lam_i, lam_j, exponent = lam.unsqueeze(-1), lam.unsqueeze(-2), p.unsqueeze(-1)
    larger = torch.maximum(lam_i, lam_j)
    slope = power_difference(larger, torch.minimum(lam_i, lam_j), exponent)
    slope = torch.where(exponent == 0, 0, slope)  # where 0 log 0 is not a number
    return torch.where(larger == 0, (exponent == 1).to(lam.dtype), slope)


def _exponent_derivatives(lam: Tensor, p: Tensor) -> Tensor:
    """``lam^p log lam``, ``(..., n)``; 0 at zero eigenvalues."""
    positive = torch.where(lam > 0, lam, 1)
    return positive**p * positive.log()


@without_autocast
def tensor_power(
    A: Tensor, exponent: Tensor, solver_device: str | torch.device | None, eps: float
) -> Tensor:
    """``A^p`` for ``A`` ``(..., n, n)`` and exponents ``(...)``, which broadcast with the batch.

    Once differentiable, in both. ``eps`` as in :func:`eigh_forward`.
    """
    check_square(A, "powm")
    if exponent.is_complex():
        raise TypeError(f"powm expects a real exponent, got {exponent.dtype}")
    if can_read_values(exponent) and not bool(exponent.isfinite().all()):
        raise ValueError(
            f"the exponent must be finite, got {exponent[~exponent.isfinite()][0].item()}"
        )
    # torch.broadcast_shapes would import half of the compiler.
    lead = torch.broadcast_tensors(A.new_empty(A.shape[:-2]), exponent)[0].shape
    n = A.shape[-1]
    p = exponent.to(A.device, A.dtype).expand(lead).unsqueeze(-1)
    Z = torch.cat([A.expand(*lead, n, n).flatten(-2), p], -1)
    return differentiable(_Power(n, solver_device, eps), Z)
