r"""Alignment of points.

For centred points in rows, :math:`\sum_k w_k |s R x_k - y_k|^2` is least for the rotation
nearest to :math:`M = \sum_k w_k y_k x_k^T` and :math:`s = \mathrm{tr}(R^T M) / \sum_k w_k |x_k|^2`, whatever
s is. The derivative is the one of :func:`rotation`, which divides by sums of singular values.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from .checks import bad_item, check_alike, check_matrix, check_range
from .polar import rotation
from .precision import product, without_autocast


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

    >>> import torch
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
