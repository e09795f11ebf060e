"""Covariances of feature maps: channels against channels, over positions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from rootpool.linalg.checks import check_range, check_tensor, checked_like_forward, needs_grad
from rootpool.linalg.differentiation import Differentiable, apply, remember
from rootpool.linalg.precision import no_autocast
from rootpool.linalg.products import product

__all__ = ["Covariance", "check_covariance", "covariance", "flatten_positions", "widened"]

ADVICE = "divide the features by a constant, or compute in float64"
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


def covariance(features: Tensor, *, centred: bool = True) -> Tensor:
    r"""Biased covariance :math:`\frac1N (X - \bar X)(X - \bar X)^T` of the channels.

    Args:
        features: ``(B, C, H, W)`` or ``(B, C, N)``.
        centred: False for the second moment, :math:`\frac1N X X^T`, in which the mean counts.

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
        A = _centre(X) if centred else X
        P = product(A, A.mT) / X.shape[-1]
    check_covariance(P, X)
    return P


def _centre(X: Tensor) -> Tensor:
    # Relative to the first position, so that a constant map is exactly zero. The covariance does not
    # depend on that shift, which therefore needs no derivative.
    shifted = X - X[..., :1].detach()
    return shifted - shifted.mean(-1, keepdim=True)


class _Widened(Differentiable):
    """A cast to a wider dtype. On the way back a gradient that does not fit is an error."""

    saves_outputs = True

    @staticmethod
    def forward(X: Tensor, dtype: torch.dtype) -> Tensor:
        return X.to(dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.narrow, ctx.wide = inputs[0].dtype, inputs[1]
        remember(ctx)

    @staticmethod
    @checked_like_forward
    def backward(ctx: Any, g: Tensor | None) -> tuple[Tensor | None, None]:
        if g is None:
            return None, None
        gradient = g.to(ctx.narrow)
        what = "the gradient of covariance_pool"
        check_range(gradient, what, g, item="features", advice=GRADIENT_ADVICE)
        return gradient, None

    @staticmethod
    def tangent(ctx: Any, saved: object, dX: Tensor, *_: None) -> Tensor:
        return dX.to(ctx.wide)


def widened(X: Tensor, dtype: torch.dtype) -> Tensor:
    """Features in the dtype that a method computes in."""
    if X.dtype == dtype or not needs_grad(X):
        return X.to(dtype)
    wide: Tensor = apply(_Widened, X, dtype)
    return wide


class Covariance(nn.Module):
    """Module form of :func:`covariance`."""

    def __init__(self, *, centred: bool = True) -> None:
        super().__init__()
        self.centred = centred

    def forward(self, features: Tensor) -> Tensor:
        return covariance(features, centred=self.centred)

    def extra_repr(self) -> str:
        return "" if self.centred else "centred=False"
