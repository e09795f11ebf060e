r"""Pairs of matrices, the second of which is definite: eigenproblems and distances.

With :math:`R = B^{-1/2}`, the problem :math:`A x = \lambda B x` is the ordinary one of :math:`C = R A R`,
with :math:`x = R y`. The inverse root has a derivative that divides by no gap, so ties of C are all that
matters. They come out further apart than those of a given matrix, by the condition of B.

For the distance :math:`d^2 = \sum_i \log^2 \lambda_i = \| \log C \|^2` the same with A - B instead of A gives
:math:`E = C - I`, which keeps the digits of close matrices, and so does :math:`\log(1 + E)`.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.linalg import LinAlgError

from .checks import (
    bad_item,
    can_read_values,
    check_alike,
    check_range,
    check_square,
    raise_not_finite,
)
from .decompose import check_symmetric
from .differentiation import hermitian_part
from .functions import apply_function
from .precision import product, without_autocast
from .scalar import FUNCTIONS, Log1p


def check_pair(A: Tensor, B: Tensor, caller: str) -> None:
    """Raise unless both are symmetric or Hermitian, of one size and dtype."""
    for item, M in (("A", A), ("B", B)):
        check_square(M, caller)
        if can_read_values(M):
            if broken := bad_item(~M.isfinite().flatten(-2).all(-1), item):
                raise_not_finite(caller, broken)
            check_symmetric(M.detach(), caller, torch.finfo(M.dtype).eps, item)
    check_alike(A, B, A.shape[-1] == B.shape[-1], caller, "matrices of one size and dtype")


def _check_definite(B: Tensor, caller: str, item: str) -> None:
    """Raise for matrices that are not positive definite."""
    if not can_read_values(B):
        return
    if name := bad_item(torch.linalg.cholesky_ex(B.detach())[1] != 0, item):
        raise LinAlgError(
            f"{caller} expects a positive definite {item}, but {name} is not; add a ridge"
        )


def whitened(A: Tensor, B: Tensor, caller: str) -> tuple[Tensor, Tensor]:
    """``B^(-1/2) A B^(-1/2)``, Hermitian to the bit, and ``B^(-1/2)``."""
    _check_definite(B, caller, "B")
    R = apply_function(hermitian_part(B), FUNCTIONS["inv_sqrt"], caller)
    return hermitian_part(product(product(R, hermitian_part(A)), R)), R


def tie_tolerance(B: Tensor, R: Tensor) -> float:
    """How far apart equal eigenvalues of ``R A R`` come out, relative to the largest one."""
    n, eps = B.shape[-1], torch.finfo(B.dtype).eps
    if not can_read_values(R) or R.numel() == 0:
        return float(eps ** (2 / 3))
    condition = B.detach().norm(dim=(-2, -1)) * R.detach().norm(dim=(-2, -1)).square()
    return float(max(n, 10) * eps * condition.max().item())


@without_autocast
def affine_invariant_distance(A: Tensor, B: Tensor) -> Tensor:
    r"""Squared affine-invariant distance of positive definite matrices.

    .. math:: d^2 = \| \log (B^{-1/2} A B^{-1/2}) \|_F^2 = \sum_i \log^2 \lambda_i(A, B)

    It does not change when both are transformed to :math:`M A M^H`, :math:`M B M^H`, nor when both are
    inverted. Gradient and second derivative are exact at ties and at ``A == B`` (where the gradient is
    zero), and close matrices keep their digits.

    Args:
        A: symmetric or complex Hermitian positive definite matrices ``(..., n, n)``.
        B: the same shape and dtype, or batch dimensions that broadcast.

    Returns:
        ``d^2`` ``(...)``. Its root is a metric, whose gradient is infinite at ``A == B``.

    Raises:
        torch.linalg.LinAlgError: for matrices that are not positive definite.

    Reference: Pennec, Fillard and Ayache, A Riemannian framework for tensor computing, IJCV 66(1), 2006.

    >>> affine_invariant_distance(torch.e * torch.eye(3), torch.eye(3)).round()
    tensor(3.)
    """
    check_pair(A, B, "affine_invariant_distance")
    _check_definite(A, "affine_invariant_distance", "A")
    E, _ = whitened(A - B, B, "affine_invariant_distance")
    logarithm = apply_function(E, Log1p(), "affine_invariant_distance")
    parts = torch.view_as_real(logarithm) if logarithm.is_complex() else logarithm.unsqueeze(-1)
    distance = parts.square().sum((-3, -2, -1))
    check_range(distance[..., None, None], "affine_invariant_distance", A, B)
    return distance
