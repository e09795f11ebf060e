r"""Alignment of points, and null vectors: the least squares problems of geometry.

**Alignment.** For centred points in rows, :math:`\sum_k w_k |s R x_k - y_k|^2` is least for the rotation
nearest to :math:`M = \sum_k w_k y_k x_k^T` and :math:`s = \mathrm{tr}(R^T M) / \sum_k w_k |x_k|^2`, whatever
s is. The derivative is the one of :func:`rotation`, which divides by sums of singular values.

**Null vectors.** Let the columns of N be the k smallest right singular vectors of A, and V the others. The
subspace of N is the complement of the span of V, and turns with it: :math:`dN = -V\, dV^H N`. No vector
inside of either is told from another, and nothing is divided by but the gap between them.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .checks import bad_item, check_alike, check_count, check_matrix, check_range
from .polar import rotation
from .precision import without_autocast
from .products import product
from .smooth import differentiable
from .subspace import PrincipalBasis

__all__ = ["Alignment", "align", "null_vectors"]


class Alignment(NamedTuple):
    """``y = scale * R @ x + translation``: ``(..., d, d)``, ``(..., d)`` and ``(...)``."""

    rotation: Tensor
    translation: Tensor
    scale: Tensor


@without_autocast
def align(X: Tensor, Y: Tensor, weights: Tensor | None = None, scale: bool = False) -> Alignment:
    r"""Rotation, translation and scale that map points to others (Kabsch, Umeyama).

    .. math:: \min_{R, t, s} \sum_k w_k\, |s R x_k + t - y_k|^2, \qquad \det R = 1

    Symmetric bodies and points in a plane are ordinary. Points on a line leave the rotation open: its
    derivative is an error there, as in :func:`rotation`.

    Args:
        X: points in rows, ``(..., N, d)``, float32 or float64.
        Y: where they should come to lie, of the same shape.
        weights: ``(..., N)``, at least 0, or a boolean mask; None for equal ones.
        scale: whether to scale as well; otherwise the scale is 1.

    Returns:
        ``rotation`` ``(..., d, d)``, ``translation`` ``(..., d)`` and ``scale`` ``(...)``.

    References: Kabsch, Acta Crystallographica A32, 1976; Umeyama, IEEE PAMI 13(4), 1991.

    >>> X = torch.tensor([[0.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    >>> turned = 3 * X @ torch.tensor([[0.0, 1.0], [-1.0, 0.0]]) + 5
    >>> R, t, s = align(X, turned, scale=True)
    >>> R.round().long(), t.round(), s.round()
    (tensor([[ 0, -1],
            [ 1,  0]]), tensor([5., 5.]), tensor(3.))
    """
    for points in (X, Y):
        check_matrix(points, "align")
    if X.is_complex() or Y.is_complex():
        raise TypeError(f"align expects real points, got {X.dtype} and {Y.dtype}")
    same = X.shape == Y.shape and 0 not in X.shape[-2:]
    check_alike(X, Y, same, "align", "two sets of points of one shape (..., N, d) and dtype")
    w = _checked_weights(X, weights)
    means = [(w * points).sum(-2, keepdim=True) for points in (X, Y)]
    centred_X, centred_Y = X - means[0], Y - means[1]
    M = product(centred_Y.mT, w * centred_X)
    check_range(M, "align", X, Y, item="X", advice="scale the points")
    R = rotation(M)
    if scale:
        spread = (w * centred_X.square()).sum((-2, -1))
        if item := bad_item(spread == 0, "X"):
            raise ValueError(
                f"align: the points of {item} are all the same, so that they have no scale; leave them "
                "out, or give scale=False"
            )
        s = (R * M).sum((-2, -1)) / spread
    else:
        s = X.new_ones(X.shape[:-2])
    turned = product(means[0], R.mT).squeeze(-2)
    return Alignment(R, means[1].squeeze(-2) - s.unsqueeze(-1) * turned, s)


def _checked_weights(X: Tensor, weights: Tensor | None) -> Tensor:
    """Weights ``(..., N, 1)`` of sum 1."""
    if weights is None:
        return X.new_full((X.shape[-2], 1), 1 / X.shape[-2])
    if weights.shape != X.shape[:-1]:
        raise ValueError(
            f"align expects weights (..., N), one for each point, {tuple(X.shape[:-1])}, got "
            f"{tuple(weights.shape)}"
        )
    w = weights.to(X.dtype)
    total = w.sum(-1, keepdim=True)
    bad = (w < 0).any(-1) | ~(total[..., 0] > 0) | ~total[..., 0].isfinite()
    if item := bad_item(bad, "weights"):
        raise ValueError(f"align: {item} are not finite numbers of at least 0 with a positive sum")
    return (w / total).unsqueeze(-1)


@without_autocast
def null_vectors(
    A: Tensor, k: int = 1, *, solver_device: str | torch.device | None = None
) -> Tensor:
    r"""The k smallest right singular vectors: unit vectors for which :math:`|A x|` is least.

    Homographies, fundamental matrices and normals are such vectors. The gradient belongs to their
    subspace: it is exact for every loss that depends on :math:`N N^H` alone, and for k = 1 for every loss
    (of a real vector; the sign does not move), whatever the other singular values are.

    Args:
        A: matrices ``(..., m, n)``, real or complex, of single or double precision; ``m`` at least
            ``n - k``.
        k: how many vectors, 1 to n - 1.
        solver_device: where to decompose, as in :func:`eigh`.

    Returns:
        ``N`` ``(..., n, k)`` with orthonormal columns, the smallest singular value last; twice
        differentiable. Signs are arbitrary.

    Raises:
        torch.linalg.LinAlgError: in the backward, where the singular values on both sides of the cut are
            equal to working precision (not under ``torch.compile`` and ``torch.func``: there it is
            infinite or NaN).

    Reference: Hartley and Zisserman, *Multiple View Geometry*, 2nd edition, section A5.3.

    >>> A = torch.tensor([[1.0, 0.0, -1.0], [0.0, 2.0, 0.0]])
    >>> null_vectors(A).abs()
    tensor([[0.7071],
            [0.0000],
            [0.7071]])
    """
    check_matrix(A, "null_vectors")
    m, n = A.shape[-2:]
    check_count(k, n - 1, "null_vectors", A)
    if m < n - k:
        raise ValueError(
            f"null_vectors expects at least n - k = {n - k} rows, got {tuple(A.shape)}: all of its "
            f"{n - m} or more null vectors count alike; give k of at least {n - m}"
        )
    return differentiable(PrincipalBasis(n - k, solver_device, others=True), A)
