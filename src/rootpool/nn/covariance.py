r"""Covariances of feature maps: channels against channels, over positions, which may have weights.

Weights are attention, or masks for padding. With :math:`w \ge 0` of sum 1, :math:`\mu = X w` and
:math:`A = (X - \mu) \mathrm{diag}(\sqrt w)`, the weighted covariance is :math:`A A^T`. Poolings go from
features to the root directly, and take equal weights for granted. They need not know better: A has the null
vector :math:`\sqrt w`, and the Householder reflection that maps it to :math:`-1/\sqrt N`,

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

from rootpool.linalg.checks import (
    can_read_values,
    check_range,
    check_tensor,
    first_index,
    needs_grad,
)
from rootpool.linalg.precision import HALF, no_autocast, product

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
            A, w = _weighted(X, weights, centred, "covariance")
            P = product(A * w, A.mT)
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


# --------------------------------------------------------------------------------------------------
# Weights of positions


def _is_fixed(weights: Tensor) -> bool:
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


def _weighted(X: Tensor, weights: Tensor, centred: bool, caller: str) -> tuple[Tensor, Tensor]:
    """Features ``(B, C, N)``, centred if asked, and their weights ``(B, 1, N)`` of sum 1 for each sample.

    Where fixed weights are zero, the features are replaced by those of a position that counts.
    """
    w = position_weights(weights, X.shape[0], X.shape[2], X.dtype, caller)
    total = w.sum(-1, keepdim=True)
    if can_read_values(w) and not bool((total > 0).all()):
        k = first_index(total[:, 0] <= 0)[0]
        raise ValueError(
            f"{caller}: all weights of the sample weights[{k}] are zero, so it has no covariance; leave the "
            "sample out of the batch, or give one of its positions a weight"
        )
    place = w.argmax(-1)[:, None, None].expand(-1, X.shape[1], 1)
    reference = X.gather(-1, place).detach()
    w = (w / total).unsqueeze(-2)
    if _is_fixed(weights):
        X = torch.where(w > 0, X, reference)
    if not centred:
        return X, w
    # As in `covariance`: a constant map is exactly zero, and the shift needs no derivative.
    shifted = X - reference
    return shifted - (shifted * w).sum(-1, keepdim=True), w


def weigh(
    X: Tensor, weights: Tensor, centred: bool, dtype: torch.dtype
) -> tuple[Tensor, Tensor | None]:
    """Features that count alike, for any method; or covariances, if weights of zero need a gradient."""
    A, w = _weighted(widened(X, dtype), weights, centred, "covariance_pool")
    if not (_is_fixed(weights) or (can_read_values(w) and bool((w > 0).all()))):
        return X, product(A * w, A.mT)
    root, N = w.sqrt(), X.shape[-1]
    alike = math.sqrt(N) * A * root
    if centred:
        u = root + 1 / math.sqrt(N)
        length = 2 + 2 / math.sqrt(N) * root.sum(-1, keepdim=True)
        alike = alike - (A * root).sum(-1, keepdim=True) * (2 / length * u)
    return alike.to(torch.promote_types(X.dtype, torch.float32)), None


def weighted_mean(X: Tensor, weights: Tensor, caller: str) -> Tensor:
    """``sum_k w_k x_k`` ``(B, C)``, in the dtype of the features."""
    wide = X.to(torch.promote_types(X.dtype, torch.float32))
    used, w = _weighted(wide, weights, False, caller)
    return (used * w).sum(-1).to(X.dtype)
