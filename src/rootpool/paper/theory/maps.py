"""Features with spectra of several kinds, and the exact gradient of the root with respect to them."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .common import normal, orthogonal

__all__ = ["feature_gradient", "feature_maps"]


def feature_maps() -> dict[str, Tensor]:
    """Features ``(C, N)`` whose covariances have spectra of four kinds."""
    hadamard = torch.ones(1, 1, dtype=torch.float64)
    for _ in range(3):
        hadamard = torch.kron(hadamard, torch.tensor([[1.0, 1.0], [1.0, -1.0]]).double())
    scale = torch.tensor([2.0, 2, 2, 1, 1, 1, 1], dtype=torch.float64)
    equal = scale[:, None] * hadamard[1:]  # covariance diag(4, 4, 4, 1, 1, 1, 1), to the bit
    return {
        "separated": normal(6, 200),
        "fewer positions than channels": normal(8, 5),
        "equal": equal,
        "equal up to rounding": orthogonal(7, seed=2) @ equal,
    }


def feature_gradient(X: Tensor, G: Tensor) -> tuple[Tensor, float]:
    r"""The exact gradient of the root with respect to features ``(C, N)``, and its largest coefficient.

    .. math:: \frac{\partial l}{\partial A} =
        \left[ U (M \circ H) + (I - U U^T) (G + G^T) U \right] V^T, \quad H_{ij} = \frac{s_j}{s_i + s_j}

    from the singular value decomposition of the centred features, without values that are rounding errors.
    """
    A = (X - X.mean(1, keepdim=True)) / math.sqrt(X.shape[1])
    U, s, Vh = torch.linalg.svd(A, full_matrices=False)
    keep = s > 1e-12 * s[0]
    U, s, Vh = U[:, keep], s[keep], Vh[keep]
    M = U.mT @ (G + G.mT) @ U
    H = s / (s[:, None] + s)
    inside = U @ (M * H - M) + (G + G.mT) @ U
    return inside @ Vh / math.sqrt(X.shape[1]), float(H.max())
