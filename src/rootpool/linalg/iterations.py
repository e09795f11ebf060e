"""Matrix roots by iterations of plain matrix products: differentiable, exportable, approximate."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from .checks import check_square
from .minimax import Minimax
from .parameters import check_at_least
from .precision import product, without_autocast


class Roots(NamedTuple):
    """``root`` and ``inverse_root``, both ``(..., n, n)``."""

    root: Tensor
    inverse_root: Tensor


@without_autocast
def newton_schulz(A: Tensor, iterations: int | Minimax = 5) -> Roots:
    r"""Square root and inverse square root by the coupled Newton-Schulz iteration (iSQRT-COV).

    .. math::
        Y_0 = A / \mathrm{tr} A, \quad Z_0 = I, \qquad
        T = \tfrac12 (3 I - Z Y), \quad Y \leftarrow Y T, \quad Z \leftarrow T Z,

    after which :math:`A^{1/2} \approx \sqrt{\mathrm{tr} A}\, Y` and
    :math:`A^{-1/2} \approx Z / \sqrt{\mathrm{tr} A}`. Differentiable any number of times by plain
    autograd; the gradient belongs to the approximation.

    A zero matrix has the root 0 and, like every singular matrix, an "inverse root" that grows with
    the number of iterations; both and their gradients are finite.

    Args:
        A: positive semi-definite matrices ``(..., n, n)``, symmetric or complex Hermitian. Not checked:
            the function contains nothing but products, so that it can be exported.
        iterations: number of steps, at least 1. The paper uses 5 (iSQRT-COV) and 10 (SVD-Newton). Or
            :class:`Minimax`, other polynomials in place of T, which reach the same error with fewer
            products: ``Minimax(steps=8, lower=1e-3)``.

    Returns:
        ``root`` and ``inverse_root``, each ``(..., n, n)``.

    Reference: Li et al., Towards faster training of global covariance pooling networks by iterative
    matrix square root normalization, CVPR 2018.

    >>> root, inverse_root = newton_schulz(torch.tensor([[4.0, 0.0], [0.0, 9.0]]), iterations=12)
    >>> root.diagonal().round(decimals=4)
    tensor([2., 3.])
    >>> inverse_root.diagonal()
    tensor([0.5000, 0.3333])
    """
    check_square(A, "newton_schulz")
    if not isinstance(iterations, Minimax):
        check_at_least("iterations", iterations, 1)
    diagonal = A.diagonal(dim1=-2, dim2=-1).real
    # In units of the largest entry the trace neither overflows nor vanishes. The root of a multiple
    # is known, so the unit needs no derivative; nor is there one at the trace of a zero matrix.
    unit = _or_one(pad(diagonal.detach(), (0, 1)).amax(-1))[..., None, None]  # padded: n may be 0
    trace = _or_one((diagonal / unit[..., 0]).sum(-1))[..., None, None]
    identity = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)
    Y = A / unit / trace
    if isinstance(iterations, Minimax):
        Y, Z = iterations.coupled(Y, identity)
    else:
        T = 1.5 * identity - 0.5 * Y  # the first step needs no products with Z = I
        Y, Z = product(Y, T), T
        for _ in range(iterations - 1):
            T = 1.5 * identity - 0.5 * product(Z, Y)
            Y, Z = product(Y, T), product(T, Z)
    scale = trace.sqrt() * unit.sqrt()
    return Roots(Y * scale, Z.expand_as(Y) / scale)


def _or_one(value: Tensor) -> Tensor:
    return torch.where(value == 0, 1, value)
