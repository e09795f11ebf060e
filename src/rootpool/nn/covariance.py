"""Covariances of feature maps: channels against channels, over positions."""

from __future__ import annotations

import torch
from torch import Tensor

from rootpool.linalg.checks import can_read_values, check_range, check_tensor
from rootpool.linalg.precision import HALF, no_autocast
from rootpool.linalg.products import product

from .weights import is_fixed, normalised, position_weights, weighted_covariance

__all__ = ["check_covariance", "covariance", "flatten_positions", "widened"]

ADVICE = "divide the features by a constant, or compute in float64"
GRADIENT_OF = "the gradient of covariance_pool"
GRADIENT_ADVICE = "divide the loss, or what multiplies it, by a constant"


def check_covariance(P: Tensor, features: Tensor) -> None:
    """Raise if a function of covariances has overflowed although the features are finite."""
    check_range(P, "the covariance", features, item="features", advice=ADVICE)


def flatten_positions(features: Tensor, caller: str) -> Tensor:
    """Flatten ``(B, C, H, W)`` or ``(B, C, N)`` to ``(B, C, N)``; raise for anything else and for N = 0."""
    check_tensor(features, caller)
    if features.dim() not in (3, 4):
        raise ValueError(
            f"{caller} expects features (B, C, H, W) or (B, C, N), got {tuple(features.shape)}"
        )
    if not features.is_floating_point():
        raise TypeError(f"{caller} expects floating-point features, got {features.dtype}")
    flat = features.flatten(2)
    if flat.shape[1] == 0 or flat.shape[2] == 0:
        raise ValueError(
            f"{caller} needs at least one channel and one position, got {tuple(features.shape)}"
        )
    return flat


def covariance(features: Tensor, *, centred: bool = True, weights: Tensor | None = None) -> Tensor:
    r"""Biased covariance :math:`\frac1N (X - \bar X)(X - \bar X)^T` of the channels.

    With weights :math:`w_k \ge 0` of the positions, scaled to sum 1 for each sample, it is
    :math:`\sum_k w_k (x_k - \mu)(x_k - \mu)^T` with :math:`\mu = \sum_k w_k x_k`.

    Args:
        features: ``(B, C, H, W)`` or ``(B, C, N)``.
        centred: False for the second moment, :math:`\frac1N X X^T`, in which the mean counts.
        weights: ``(B, H, W)`` or ``(B, N)``: a boolean mask that is true where a position counts, or numbers
            of at least 0, such as attention, which may need a gradient. What is at positions of weight
            zero does not matter, NaN neither, unless the weights need a gradient. A sample without any
            weight is an error.

    Returns:
        ``(B, C, C)``, in the dtype of the features. Squares of features that exceed its range are an
        error; those below it become zero.

    >>> import torch
    >>> covariance(torch.tensor([[[1.0, 3.0], [2.0, 2.0]]]))
    tensor([[[1., 0.],
             [0., 0.]]])
    >>> covariance(torch.tensor([[[1.0, 3.0], [2.0, 2.0]]]), centred=False)
    tensor([[[5., 4.],
             [4., 4.]]])
    """
    X = flatten_positions(features, "covariance")
    with no_autocast(X.device):  # in half precision it is not semi-definite
        if weights is None:
            A = _centre(X) if centred else X
            P = product(A, A.mT) / X.shape[-1]
        else:
            w = position_weights(weights, X.shape[0], X.shape[2], X.dtype, "covariance")
            P = weighted_covariance(X, normalised(w, "covariance"), is_fixed(weights), centred)
    check_covariance(P, X)
    return P


def _centre(X: Tensor) -> Tensor:
    # Relative to the first position, so that a constant map is exactly zero. The covariance does not
    # depend on that shift, which therefore needs no derivative.
    shifted = X - X[..., :1].detach()
    return shifted - shifted.mean(-1, keepdim=True)


def widened(X: Tensor, dtype: torch.dtype) -> Tensor:
    """Features in the dtype of a method; a gradient that does not fit into their own is an error."""
    wide, narrow = X.to(dtype), X.dtype

    def check_gradient(g: Tensor) -> None:
        check_range(g.to(narrow), GRADIENT_OF, g, item="features", advice=GRADIENT_ADVICE)

    # In half precision it is not: those who scale a loss look for infinities themselves.
    if narrow not in (dtype, *HALF) and wide.requires_grad and can_read_values(X):
        wide.register_hook(check_gradient)
    return wide
