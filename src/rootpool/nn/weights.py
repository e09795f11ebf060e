r"""Weights of positions: attention, and masks for padding.

With weights :math:`w \ge 0` of sum 1, :math:`\mu = X w` and :math:`A = (X - \mu) \mathrm{diag}(\sqrt w)`, the
weighted covariance is :math:`A A^T`. Poolings go from features to the root directly, and take equal weights
for granted. They need not know better: A has the null vector :math:`\sqrt w`, and the Householder reflection
that maps it to :math:`-1/\sqrt N`,

.. math:: Y = \sqrt N A \left( I - 2 \frac{u u^T}{u^T u} \right), \qquad
          u = \sqrt w + \frac{1}{\sqrt N}, \quad u^T u = 2 + \frac{2}{\sqrt N} \sum_k \sqrt{w_k},
          \quad A u = \frac{1}{\sqrt N} \sum_k a_k,

gives features of mean zero with the covariance :math:`Y Y^T / N = A A^T`. It never divides by less than 2.
The root of w has an infinite derivative at zero, and the covariance, which is linear in w, has not: weights
that may be zero and need a gradient go by way of the covariance.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rootpool.linalg.checks import can_read_values, first_index, needs_grad
from rootpool.linalg.products import product

__all__ = [
    "equally_weighted",
    "is_fixed",
    "normalised",
    "position_weights",
    "weighted_covariance",
    "weighted_mean",
]


def is_fixed(weights: Tensor) -> bool:
    """Whether nobody wants a gradient of these weights."""
    return not (weights.is_floating_point() and needs_grad(weights))


def position_weights(weights: Tensor, B: int, N: int, dtype: torch.dtype, caller: str) -> Tensor:
    """Weights ``(B, N)``: those of users, ``(B, H, W)`` or ``(B, N)``, numbers or booleans."""
    if not isinstance(weights, Tensor) or weights.is_complex():
        kind = weights.dtype if isinstance(weights, Tensor) else type(weights).__name__
        raise TypeError(f"{caller} expects weights as a tensor of numbers or booleans, got {kind}")
    if weights.dim() < 2 or weights.flatten(1).shape != (B, N):
        raise ValueError(
            f"{caller} expects weights (B, H, W) or (B, N), a number for each of the {N} positions of {B} "
            f"samples, got {tuple(weights.shape)}"
        )
    w = weights.flatten(1).to(dtype)
    if can_read_values(w):
        broken = ~((w >= 0) & w.isfinite()).all(-1)
        if bool(broken.any()):
            raise ValueError(
                f"{caller}: weights[{first_index(broken)[0]}] has entries that are negative, NaN or "
                "infinite; take a softmax, or a boolean mask"
            )
    return w


def normalised(w: Tensor, caller: str) -> Tensor:
    """Weights ``(B, N)`` of sum 1 for each sample."""
    total = w.sum(-1, keepdim=True)
    if can_read_values(w) and not bool((total > 0).all()):
        k = first_index(total[:, 0] <= 0)[0]
        raise ValueError(
            f"{caller}: all weights of the sample weights[{k}] are zero, so it has no covariance; leave the "
            "sample out of the batch, or give one of its positions a weight"
        )
    return w / total


def _without_padding(X: Tensor, w: Tensor, fixed: bool) -> tuple[Tensor, Tensor]:
    """Features with something harmless where fixed weights are zero, and a position that counts."""
    place = w.argmax(-1)[:, None, None].expand(-1, X.shape[1], 1)
    reference = X.gather(-1, place).detach()
    return (torch.where(w.unsqueeze(-2) > 0, X, reference) if fixed else X), reference


def weighted_mean(X: Tensor, weights: Tensor, caller: str) -> Tensor:
    """``sum_k w_k x_k`` ``(B, C)``, in the dtype of the features."""
    dtype = torch.promote_types(X.dtype, torch.float32)
    w = normalised(position_weights(weights, X.shape[0], X.shape[2], dtype, caller), caller)
    X_used, _ = _without_padding(X.to(dtype), w, is_fixed(weights))
    return (X_used * w.unsqueeze(-2)).sum(-1).to(X.dtype)


def _centred(X: Tensor, w: Tensor, fixed: bool, centred: bool) -> Tensor:
    X, reference = _without_padding(X, w, fixed)
    if not centred:
        return X
    # As in `covariance`: a constant map is exactly zero, and the shift needs no derivative.
    shifted = X - reference
    return shifted - (shifted * w.unsqueeze(-2)).sum(-1, keepdim=True)


def equally_weighted(X: Tensor, w: Tensor, fixed: bool, centred: bool) -> Tensor:
    """Features ``(B, C, N)`` with equal weights whose covariance is the weighted one of ``X``."""
    N, root = X.shape[-1], w.sqrt().unsqueeze(-2)
    A = _centred(X, w, fixed, centred) * root
    if not centred:
        return math.sqrt(N) * A
    u = root + 1 / math.sqrt(N)
    length = 2 + 2 / math.sqrt(N) * root.sum(-1, keepdim=True)
    return math.sqrt(N) * A - A.sum(-1, keepdim=True) * (2 / length * u)


def weighted_covariance(X: Tensor, w: Tensor, fixed: bool, centred: bool) -> Tensor:
    """``sum_k w_k (x_k - mu) (x_k - mu)^T``, or the second moment, of ``(B, C, N)``."""
    A = _centred(X, w, fixed, centred)
    return product(A * w.unsqueeze(-2), A.mT)
