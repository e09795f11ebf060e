r"""Nearest rotations of 3 x 3 matrices in float32, to the last digit, and of many at once.

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

__all__ = ["small_rotation"]

Factors = tuple[Tensor, Tensor, Tensor, Tensor]
# Of the second singular value to the first. Below, the square has lost what decides between the others.
LEAST_RATIO = 1e-3


def small_rotation(A: Tensor) -> Factors | None:
    """Rotations, U, signed singular values and V of ``(..., 3, 3)``; None where this is not the way."""
    if A.dtype != torch.float32 or A.shape[-1] != 3 or A.device.type != "cpu" or not is_concrete(A):
        return None
    wide = A.double()
    if not is_tiny(wide):
        return _rounded(*_by_svd(wide))
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
        U[hard], t[hard], V[hard] = _by_svd(flat[hard])
    return _rounded(U.view_as(wide), t.view(wide.shape[:-1]), V.view_as(wide))


def _by_svd(A: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    U, t, Vh = svd_forward(A, False, None)
    sign = torch.where(torch.linalg.det(U @ Vh) < 0, -1.0, 1.0).unsqueeze(-1)
    signs = torch.cat([torch.ones_like(t[..., :2]), sign], -1)
    return U * signs.unsqueeze(-2), t * signs, Vh.mT


def _rounded(U: Tensor, t: Tensor, V: Tensor) -> Factors:
    R, U, t, V = (factor.float() for factor in (U @ V.mT, U, t, V))
    return R, U, t, V.contiguous()


def _times(A: Tensor, x: Tensor) -> Tensor:
    return (A @ x.unsqueeze(-1)).squeeze(-1)


def _dot(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sum(-1, keepdim=True)


def _unit(x: Tensor) -> tuple[Tensor, Tensor]:
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x / torch.where(length == 0, 1, length), length
