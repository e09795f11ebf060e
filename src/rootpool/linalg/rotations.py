r"""Nearest rotations; those of 3 x 3 matrices in float32 to the last digit, and of many at once.

In float64 nothing of a matrix in float32 is lost by squaring it, so the right singular vectors are
eigenvectors of :math:`A^T A`, which Jacobi's rotations (:mod:`rootpool.linalg.solvers`) find for a whole
batch. With two of them, and :math:`u_i = A v_i / |A v_i|`, the third ones are cross products. Both bases are
then right-handed: their product is a rotation without a look at determinants, and
:math:`t_3 = u_3^T A\, v_3` has the sign of :math:`\det A`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .checks import is_concrete
from .decompose import eigh_forward, svd_forward
from .solvers import is_tiny

__all__ = ["rotation_factors"]

Factors = tuple[Tensor, Tensor, Tensor, Tensor]
# Of the second singular value to the first. Below, the square has lost what decides between the others.
LEAST_RATIO = 1e-3


def rotation_factors(A: Tensor, solver_device: str | torch.device | None) -> Factors:
    """Rotations, U, signed singular values and V of real ``(..., n, n)``."""
    single = A.dtype == torch.float32 and A.shape[-1] == 3 and A.device.type == "cpu"
    if not single or solver_device is not None or not is_concrete(A):
        return _rounded(A.dtype, *_by_svd(A, solver_device))
    wide = A.double()
    if not is_tiny(wide):
        return _rounded(A.dtype, *_by_svd(wide, None))
    flat = wide.reshape(-1, 3, 3)
    _, V = eigh_forward(flat.mT @ flat, "triangle", "rotation", None)
    v = [V[..., 2], V[..., 1]]
    v.append(torch.linalg.cross(*v))
    first, second = (_times(flat, x) for x in v[:2])
    u, s_1 = _unit(first)
    u_2, s_2 = _unit(second - u * _dot(u, second))
    u_3 = torch.linalg.cross(u, u_2)
    U, V = torch.stack([u, u_2, u_3], -1), torch.stack(v, -1)
    t = torch.cat([s_1, s_2, _dot(u_3, _times(flat, v[2]))], -1)
    hard = s_2[:, 0] <= LEAST_RATIO * s_1[:, 0]
    if bool(hard.any()):
        U[hard], t[hard], V[hard] = _by_svd(flat[hard], None)
    return _rounded(A.dtype, U.view_as(wide), t.view(wide.shape[:-1]), V.view_as(wide))


def _by_svd(A: Tensor, solver_device: str | torch.device | None) -> tuple[Tensor, Tensor, Tensor]:
    """U, singular values and V, with the signs that make ``U V^T`` a rotation."""
    U, s, Vh = svd_forward(A, False, solver_device)
    n = s.shape[-1]
    last = torch.arange(n, device=s.device) == n - 1
    sign = torch.where(torch.linalg.det(U @ Vh) < 0, -1.0, 1.0).to(s.dtype)
    signs = torch.where(last, sign.unsqueeze(-1), 1)
    return U * signs.unsqueeze(-2), s * signs, Vh.mT


def _rounded(dtype: torch.dtype, U: Tensor, t: Tensor, V: Tensor) -> Factors:
    R, U, t, V = (factor.to(dtype) for factor in (U @ V.mT, U, t, V))
    return R, U, t, V.contiguous()


def _times(A: Tensor, x: Tensor) -> Tensor:
    return (A @ x.unsqueeze(-1)).squeeze(-1)


def _dot(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sum(-1, keepdim=True)


def _unit(x: Tensor) -> tuple[Tensor, Tensor]:
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x / torch.where(length == 0, 1, length), length
