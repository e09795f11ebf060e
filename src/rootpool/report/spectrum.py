r"""Spectra of the covariances of feature maps: condition number, rank, first eigenvalue ratio."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rootpool.linalg.decompose import roundoff
from rootpool.linalg.parallel import batchwise
from rootpool.nn.covariance import flatten_positions

__all__ = ["STATISTICS", "covariance_eigenvalues", "spectrum_statistics"]

STATISTICS = (
    "condition_mean",
    "lambda_1",
    "lambda_min_kept",
    "rank",
    "eigenvalue_ratio",
)


def covariance_eigenvalues(features: Tensor) -> Tensor:
    r"""Eigenvalues of :math:`\frac1N (X - \bar X)(X - \bar X)^T`, descending, in float64.

    At most ``min(C, N - 1)`` of the C eigenvalues are not zero; those at round-off level are returned as
    exact zeros too. The smaller of the two Gram matrices is decomposed. There is no gradient.

    Args:
        features: ``(B, C, H, W)`` or ``(B, C, N)``, finite.

    Returns:
        ``(B, C)``.

    >>> covariance_eigenvalues(torch.tensor([[[1.0, 3.0], [2.0, 2.0]]]))
    tensor([[1., 0.]], dtype=torch.float64)
    """
    X = flatten_positions(features, "covariance_eigenvalues").detach()
    lam = X.new_zeros(X.shape[:2], dtype=torch.float64)
    if X.numel() == 0:
        return lam
    with torch.autocast(X.device.type, enabled=False):
        A = X.double() - X[..., :1].double()  # a constant map becomes exactly zero
        A -= A.mean(-1, keepdim=True)
        positions = A.shape[2]
        A = A if A.shape[1] <= positions else A.mT
        gram = A @ A.mT / positions
        (values,) = batchwise(lambda G: (torch.linalg.eigvalsh(G),), gram, trailing=(2,))
    values = torch.where(values > roundoff(values), values, 0).flip(-1)
    lam[:, : values.shape[1]] = values
    return lam


def spectrum_statistics(features: Tensor, *, eps: float | None = None) -> dict[str, float]:
    r"""Statistics of the covariances of a batch of feature maps.

    ===================  ==========================================================================
    ``condition_mean``   :math:`\max(\lambda_1, \epsilon) / \max(\lambda_C, \epsilon)`, the clamped
                         condition number of the paper, mean over the maps. With fewer positions than
                         channels :math:`\lambda_C = 0`, and it is :math:`\lambda_1 / \epsilon` only.
    ``lambda_1``         mean of the largest eigenvalue
    ``lambda_min_kept``  mean of the smallest eigenvalue above round-off, over the maps that have one;
                         0 if none has (all maps constant)
    ``rank``             mean number of eigenvalues above round-off
    ``eigenvalue_ratio`` mean of :math:`\lambda_1 / \lambda_2`: ``inf`` as soon as one map has rank
                         one (or one channel); a constant map counts as 1, a tie
    ===================  ==========================================================================

    Args:
        features: ``(B, C, H, W)`` or ``(B, C, N)``, B at least 1. If an entry is NaN or infinite, all
            statistics are NaN.
        eps: smallest eigenvalue in the condition number, by default float64's epsilon; use
            ``torch.finfo(pool.compute_dtype).eps`` for a pool of another precision.

    Returns:
        The rows of the table above, as numbers.

    >>> spectrum_statistics(torch.tensor([[[1.0, 3.0, 1.0, 3.0], [1.0, 1.0, 2.0, 2.0]]]))
    {'condition_mean': 4.0, 'lambda_1': 1.0, 'lambda_min_kept': 0.25, 'rank': 2.0,
     'eigenvalue_ratio': 4.0}
    """
    X = flatten_positions(features, "spectrum_statistics")
    if X.shape[0] == 0:
        raise ValueError(f"spectrum_statistics needs at least one map, got {tuple(X.shape)}")
    eps = torch.finfo(torch.float64).eps if eps is None else eps
    if not (eps > 0 and math.isfinite(eps)):
        raise ValueError(f"eps must be positive and finite, got {eps!r}")
    if not X.isfinite().all():
        return dict.fromkeys(STATISTICS, math.nan)
    lam = covariance_eigenvalues(X)
    raised = lam.clamp_min(eps)
    positive = lam > 0
    rank = positive.sum(-1)
    least = torch.where(positive, lam, torch.inf).amin(-1)[rank > 0]
    values = (
        (raised[:, 0] / raised[:, -1]).mean(),
        lam[:, 0].mean(),
        least.mean() if len(least) else torch.zeros(()),
        rank.double().mean(),
        _first_ratio(lam).mean(),
    )
    return {key: float(value) for key, value in zip(STATISTICS, values, strict=True)}


def _first_ratio(lam: Tensor) -> Tensor:
    second = lam[:, 1] if lam.shape[1] > 1 else torch.zeros_like(lam[:, 0])
    return torch.where(lam[:, 0] == 0, 1, lam[:, 0] / second)
