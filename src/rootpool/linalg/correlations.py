r"""Canonical correlations of two views, for losses on whitened cross-covariances."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import pad

from .checks import check_alike, check_matrix
from .functions import inv_sqrtm
from .parameters import check_not_negative
from .polar import polar
from .precision import product, without_autocast
from .spectra import svdvals


def _centred(X: Tensor) -> Tensor:
    """``X`` ``(..., N, p)`` reflected so that the mean is its first row, and without that row.

    Its covariance is the same, and it has no null direction that the data have not.
    """
    root = math.sqrt(X.shape[-2])
    apart = X[..., 1:, :] - X[..., :1, :]
    reflected = apart - apart.sum(-2, keepdim=True) / (root * (root + 1))
    return reflected / math.sqrt(X.shape[-2] - 1)


def _whitened(X: Tensor, ridge: float) -> Tensor:
    r"""Centred ``X`` to :math:`X (X^H X + r I)^{-1/2}`; by the smaller of two matrices.

    Both :math:`X (X^H X + r I)^{-1/2}` and :math:`(X X^H + r I)^{-1/2} X` are the same matrix.
    """
    few = X.shape[-1] > X.shape[-2] and ridge > 0
    squared = product(X, X.mH) if few else product(X.mH, X)
    squared = squared + ridge * torch.eye(squared.shape[-1], dtype=X.dtype, device=X.device)
    root = inv_sqrtm(squared)
    return product(root, X) if few else product(X, root)


@without_autocast
def canonical_correlations(X: Tensor, Y: Tensor, ridge: float = 0.0) -> Tensor:
    r"""Canonical correlations of two views of the same samples, with a gradient that is right at ties.

    .. math:: \sigma \left( (C_{XX} + r I)^{-1/2}\, C_{XY}\, (C_{YY} + r I)^{-1/2} \right)

    with the sample covariances of centred data, divided by N - 1. The negative sum is the loss of Deep
    CCA; one plus the sum of squares is the VAMP-2 score of a time series and its delayed copy. With
    fewer samples than dimensions only N x N matrices are inverted; a ridge is necessary
    then, and the gradient is as exact as elsewhere.

    Args:
        X: the first view, samples in rows, ``(..., N, p)``, real or complex.
        Y: the second view of the same samples, ``(..., N, q)``.
        ridge: added to the variances, in their units; 0 needs covariances of full rank.

    Returns:
        ``(..., min(p, q))`` in descending order, between 0 and 1.

    References: Andrew et al., Deep canonical correlation analysis, ICML 2013; Mardt et al., VAMPnets,
    Nature Communications 9, 2018.

    >>> X = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 2.0], [0.0, -2.0]])
    >>> canonical_correlations(X, X @ torch.tensor([[2.0, 1.0], [0.0, 3.0]]))
    tensor([1.0000, 1.0000])
    """
    for view in (X, Y):
        check_matrix(view, "canonical_correlations")
    same = X.shape[-2] == Y.shape[-2] >= 2
    what = "two views of the same samples, (..., N, p) and (..., N, q) of one dtype with N >= 2"
    check_alike(X, Y, same, "canonical_correlations", what)
    check_not_negative("ridge", ridge)
    A, B = (_whitened(_centred(view), ridge) for view in (X, Y))
    most, rank = min(A.shape[-1], B.shape[-1]), A.shape[-2]
    if most <= rank:
        return svdvals(product(A.mH, B))
    # Of p x q matrices with fewer samples the others are zero, where singular values have no second
    # derivative. With the polar decomposition A^H = Q H those that are not are the ones of H B.
    return pad(svdvals(product(polar(A.mH).H, B)), (0, most - rank))
