"""Triangular factors of covariances, for methods without eigenvalues."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.linalg import LinAlgError

from rootpool.linalg.checks import can_read_values, first_index, name_item
from rootpool.linalg.precision import is_inside_autocast

from .precision import working_dtype


def with_ridge(P: Tensor, ridge: float | Tensor) -> Tensor:
    """``P + ridge * I``."""
    return P + ridge * torch.eye(P.shape[-1], dtype=P.dtype, device=P.device)


def cholesky(P: Tensor, caller: str, advice: str) -> Tensor:
    """The factor L of ``P = L L^T``; an error that names the matrix where P is not definite to rounding."""
    # Torch's own backward may run inside autocast like the forward. There torch multiplies float32 in half
    # precision, but leaves float64 alone, where the device has it.
    safe = P.to(working_dtype(None, P.device)) if is_inside_autocast() else P
    L, info = torch.linalg.cholesky_ex(safe)
    broken = info != 0
    if can_read_values(info) and bool(broken.any()):
        raise LinAlgError(
            f"{caller}: {name_item(first_index(broken), 'covariance')} is not positive definite to the "
            f"rounding of {P.dtype}; {advice}"
        )
    # Where nobody can look, NaN instead of the part that was factored.
    return torch.where(broken[..., None, None], torch.nan, L)


def inverse_factor(L: Tensor) -> Tensor:
    """``L^-1``: torch.cholesky_inverse has a wrong derivative in forward mode (pytorch issue 196682)."""
    eye = torch.eye(L.shape[-1], dtype=L.dtype, device=L.device)
    inverse: Tensor = torch.linalg.solve_triangular(L, eye, upper=False)
    return inverse
