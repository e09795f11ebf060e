r"""Polar factors and nearest rotations: derivatives that divide by sums of singular values, never by gaps.

The polar factor :math:`Q = U V^H` is the function f = 1 of singular values (:mod:`rootpool.linalg.singular`):
of its derivatives the divided differences vanish, and :math:`2/(s_i + s_j)` remains.

The nearest rotation replaces U by U D with :math:`D = \mathrm{diag}(1, \dots, 1, \pm 1)`, such that
the determinant is 1: the smallest singular value may get a sign, and nothing else changes (Umeyama 1991).

Those of 3 x 3 matrices in float32 are right to the last digit, and of many at once. In float64 nothing of
them is lost by squaring, so the right singular vectors are eigenvectors of :math:`A^T A`, which Jacobi's
rotations (:mod:`rootpool.linalg.solvers`) find for a whole batch. With two of them, and
:math:`u_i = A v_i / |A v_i|`, the
third ones are cross products. Both bases are then right-handed: their product is a rotation without a look at
determinants, and :math:`t_3 = u_3^T A\, v_3` has the sign of :math:`\det A`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.linalg import LinAlgError

from .checks import bad_item, can_read_values, check_matrix, check_square, is_concrete
from .decompose import all_above_roundoff, eigh_forward, roundoff, svd_forward
from .differentiation import hermitian_part, quotient
from .precision import product, without_autocast
from .singular import Coefficients, SingularMap
from .smooth import differentiable, differentiable_tall
from .solvers import is_tiny


class Polar(NamedTuple):
    """``A = Q @ H``: ``Q`` ``(..., m, n)`` orthonormal, ``H`` ``(..., n, n)`` semi-definite."""

    Q: Tensor
    H: Tensor


# --------------------------------------------------------------------------------------------------
# Functions of singular values


@dataclass(frozen=True)
class PolarFactor(SingularMap):
    """``A -> Q``: 1 on singular values, and 0 where they are zero to working precision."""

    name = "the polar factor"
    twice_at_zero = False

    solver_device: str | torch.device | None = None

    def value(self, A: Tensor) -> tuple[Tensor, ...]:
        U, s, Vh = svd_forward(A, False, self.solver_device)
        kept = U
        if not (can_read_values(s) and all_above_roundoff(s)):
            s = torch.where(s <= roundoff(s), 0, s)
            kept = U * (s > 0).unsqueeze(-2)
        return kept @ Vh, U, s, Vh.mH.resolve_conj().contiguous()

    def coefficients(self, s: Tensor) -> Coefficients:
        f, R = (s > 0).to(s.dtype), quotient(1, s.unsqueeze(-1) + s.unsqueeze(-2))
        f_i, f_j = f.unsqueeze(-1), f.unsqueeze(-2)
        return Coefficients((f_i - f_j).abs() * R, (f_i + f_j) * R, quotient(1, s).unsqueeze(-2))

    def second_product(self, s: Tensor, G: Tensor, W: Tensor) -> Tensor:
        return torch.zeros_like(G)  # where the rank is full


@dataclass(frozen=True)
class _Rotation(PolarFactor):
    """``A -> R`` for square matrices; of the singular values the smallest has a sign."""

    name = "the nearest rotation"
    twice_at_zero = True

    def value(self, A: Tensor) -> tuple[Tensor, ...]:
        single = A.dtype == torch.float32 and A.shape[-1] == 3 and A.device.type == "cpu"
        if not single or self.solver_device is not None or not is_concrete(A):
            return _rounded(A.dtype, *_by_svd(A, self.solver_device))
        wide = A.double()
        factors = _by_cross_products(wide) if is_tiny(wide) else _by_svd(wide, None)
        return _rounded(A.dtype, *factors)

    def coefficients(self, s: Tensor) -> Coefficients:
        """Infinite where the rotation is not unique: then the derivative is infinite or NaN."""
        sums = s.unsqueeze(-1) + s.unsqueeze(-2)
        # An antisymmetric matrix has no diagonal.
        R = torch.where(sums <= roundoff(s).unsqueeze(-1), torch.inf, 1 / sums).tril(-1)
        if item := bad_item(R.isinf().flatten(-2).any(-1)):
            raise LinAlgError(
                f"the nearest rotation to {item} is not unique, so it has no derivative: its two smallest "
                "singular values are equal and its determinant is negative, or both are zero; keep such "
                "matrices out of the loss"
            )
        zero = torch.zeros_like(R)
        return Coefficients(zero, 2 * (R + R.mT), zero)


# Of the second singular value to the first. Below, the square has lost what decides between the others.
LEAST_RATIO = 1e-3


def _by_cross_products(A: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """U, signed singular values and V of ``(..., 3, 3)``."""
    flat = A.reshape(-1, 3, 3)
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
    return U.view_as(A), t.view(A.shape[:-1]), V.view_as(A)


def _by_svd(A: Tensor, solver_device: str | torch.device | None) -> tuple[Tensor, Tensor, Tensor]:
    """U, singular values and V, with the signs that make ``U V^T`` a rotation."""
    U, s, Vh = svd_forward(A, False, solver_device)
    n = s.shape[-1]
    last = torch.arange(n, device=s.device) == n - 1
    sign = torch.where(torch.linalg.det(U @ Vh) < 0, -1.0, 1.0).to(s.dtype)
    signs = torch.where(last, sign.unsqueeze(-1), 1)
    return U * signs.unsqueeze(-2), s * signs, Vh.mT


def _rounded(dtype: torch.dtype, U: Tensor, t: Tensor, V: Tensor) -> tuple[Tensor, ...]:
    R, U, t, V = (factor.to(dtype) for factor in (U @ V.mT, U, t, V))
    return R, U, t, V.contiguous()


def _times(A: Tensor, x: Tensor) -> Tensor:
    return (A @ x.unsqueeze(-1)).squeeze(-1)


def _dot(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sum(-1, keepdim=True)


def _unit(x: Tensor) -> tuple[Tensor, Tensor]:
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x / torch.where(length == 0, 1, length), length


# --------------------------------------------------------------------------------------------------
# For users


@without_autocast
def orthogonalize(A: Tensor, *, solver_device: str | torch.device | None = None) -> Tensor:
    r"""The orthogonal polar factor :math:`Q = U V^H` of ``A``, the nearest matrix with orthonormal columns.

    (With orthonormal rows, if there are fewer rows than columns.) The derivative is

    .. math:: dQ = U \left[ \frac{(X - X^H)_{ij}}{s_i + s_j} \right] V^H
              + (I - U U^H)\, dA\, V S^{-1} V^H + U S^{-1} U^H dA\, (I - V V^H),
              \qquad X = U^H dA\, V.

    It divides by no gap: equal singular values are ordinary. Where the rank is not full (singular
    values at round-off level, ``2 sqrt(k) eps max(s)``, count as zeros) the factor comes from the
    canonical polar decomposition, a partial isometry that is zero on the null space of ``A``. There
    the factor is not continuous, and the derivative is taken along changes that keep the rank.
    The second derivative is exact as well; it needs full rank.

    Args:
        A: matrices ``(..., m, n)`` of any shape, real or complex, of single or double precision.
        solver_device: where to decompose, as in :func:`eigh`.

    Returns:
        ``Q`` ``(..., m, n)``.

    Reference: Higham, *Functions of Matrices*, 2008, chapter 8.

    >>> A = (2 * torch.eye(3)).requires_grad_()  # three equal singular values
    >>> orthogonalize(A)[0, 1].backward()
    >>> A.grad[0]
    tensor([0.0000, 0.2500, 0.0000])
    """
    check_matrix(A, "orthogonalize")
    return differentiable_tall(PolarFactor(solver_device), A)


@without_autocast
def polar(A: Tensor, *, solver_device: str | torch.device | None = None) -> Polar:
    r"""Polar decomposition :math:`A = Q H` of matrices of any shape and rank.

    :math:`Q` is :func:`orthogonalize` of ``A``, with its derivative and its conventions where the rank
    is not full. :math:`H = Q^H A = (A^H A)^{1/2}` is Hermitian, positive semi-definite and unique.

    Args:
        A: matrices ``(..., m, n)``, real or complex, of single or double precision.
        solver_device: where to decompose, as in :func:`eigh`.

    Returns:
        ``Q`` ``(..., m, n)`` and ``H`` ``(..., n, n)``.

    >>> Q, H = polar(torch.tensor([[0.0, -2.0], [3.0, 0.0]]))
    >>> Q.round().long(), H.round().long()
    (tensor([[ 0, -1],
            [ 1,  0]]), tensor([[3, 0],
            [0, 2]]))
    """
    check_matrix(A, "polar")
    Q = orthogonalize(A, solver_device=solver_device)
    return Polar(Q, hermitian_part(product(Q.mH, A)))


@without_autocast
def rotation(A: Tensor, *, solver_device: str | torch.device | None = None) -> Tensor:
    r"""The rotation nearest to ``A``: :math:`R = U D V^T` with determinant 1 (Procrustes, Kabsch).

    It maximises :math:`\mathrm{tr}(R^T A)`. For points :math:`x_i, y_i` around their means, stacked as
    rows of ``X`` and ``Y``, ``rotation(Y.mT @ X)`` is the R that makes :math:`\sum |R x_i - y_i|^2`
    least. With :math:`t = (s_1, \dots, s_{n-1}, \pm s_n)`, with the sign of the determinant,

    .. math:: dR = U D \left[ \frac{(X - X^T)_{ij}}{t_i + t_j} \right] V^T, \qquad X = D U^T dA\, V.

    So points in a plane (one singular value zero) and regular bodies (all equal) are ordinary. The
    problem itself is singular where :math:`t_{n-1} + t_n = 0`: the two smallest singular values are
    zero, or they are equal and the determinant is negative. There several rotations are equally
    near; one of them is returned, and its derivative is an error.

    Args:
        A: matrices ``(..., n, n)``, float32 or float64.
        solver_device: where to decompose, as in :func:`eigh`.

    Returns:
        ``R`` ``(..., n, n)``, orthogonal with determinant 1; twice differentiable.

    Raises:
        torch.linalg.LinAlgError: in the backward, where the nearest rotation is not unique to working
            precision (not under ``torch.compile`` and ``torch.vmap``: there it is infinite or NaN).

    References: Kabsch, Acta Crystallographica A32, 1976; Umeyama, IEEE PAMI 13(4), 1991.

    >>> rotation(torch.diag(torch.tensor([3.0, 2.0, -1.0]))).diagonal()
    tensor([1., 1., 1.])
    """
    check_square(A, "rotation")
    if A.is_complex():
        raise TypeError(
            f"rotation expects real matrices, got {A.dtype}; orthogonalize gives the nearest unitary one"
        )
    return differentiable(_Rotation(solver_device), A)
