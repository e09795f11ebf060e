"""What whitening layers have in common: options, checks, statistics and the forward pass."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from rootpool.linalg.checks import can_read_values, check_range, is_finite
from rootpool.linalg.parameters import check_at_least
from rootpool.linalg.precision import no_autocast
from rootpool.linalg.products import product

from .covariance import ADVICE, position_weights
from .precision import check_compute_dtype, working_dtype
from .whitening_methods import WhiteningMethod, resolve_whitening

__all__ = ["WhiteningLayer"]


class WhiteningLayer(nn.Module):
    """Whitening of features, across samples or of each by itself, as matrices ``(b, n, m)``."""

    across_samples: ClassVar[bool]
    too_few: ClassVar[str]  # the error for that many values
    weight: nn.Parameter | None
    bias: nn.Parameter | None

    def __init__(
        self,
        num_features: int,
        groups: int,
        eps: float = 1e-5,
        *,
        affine: bool = False,
        method: str | WhiteningMethod = "exact",
        compute_dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_at_least("num_features", num_features, 1)
        check_at_least("groups", groups, 1)
        if num_features % groups:
            raise ValueError(
                f"groups must divide the channels, got {groups} groups of {num_features} channels"
            )
        if not eps > 0:
            raise ValueError(f"eps must be positive, got {eps!r}")
        check_compute_dtype(compute_dtype)
        self.num_features, self.groups = int(num_features), int(groups)
        self.eps, self.affine, self.compute_dtype = eps, affine, compute_dtype
        self.method = method
        for name, start in (("weight", 1.0), ("bias", 0.0)):
            values = nn.Parameter(torch.full((self.num_features,), start)) if affine else None
            self.register_parameter(name, values)

    @property
    def method(self) -> WhiteningMethod:
        """How the inverse root is computed; assign a name or a value to change it."""
        return self._method

    @method.setter
    def method(self, method: str | WhiteningMethod) -> None:
        self._method = resolve_whitening(method)

    def reset_parameters(self) -> None:
        """Set the affine part to the identity."""
        if self.weight is not None and self.bias is not None:
            nn.init.ones_(self.weight)
            nn.init.zeros_(self.bias)

    def _check_features(self, features: Tensor) -> None:
        name = type(self).__name__
        if features.dim() < 2 or features.shape[1] != self.num_features:
            raise ValueError(
                f"{name} expects (B, {self.num_features}, *), got {tuple(features.shape)}"
            )
        if not features.is_floating_point():
            raise TypeError(
                f"{name} expects floating-point features, got {features.dtype}; cast with "
                "features.float()"
            )

    def _sum(self, here: Tensor) -> Tensor:
        """The sum over all that share statistics."""
        return here

    def _whiten(self, X: Tensor, w: Tensor | None) -> Tensor:
        mean, covariance, _ = self._statistics(X, w)
        return self.method(covariance, X - mean, self.eps, 0.0)

    def forward(self, features: Tensor, weights: Tensor | None = None) -> Tensor:
        self._check_features(features)
        with no_autocast(features.device):
            dtype = working_dtype(self.compute_dtype, features.device)
            rows = features.to(dtype).transpose(0, 1) if self.across_samples else features.to(dtype)
            X = rows.flatten(1).unflatten(0 if self.across_samples else 1, (self.groups, -1))
            w = mask = None
            if weights is not None:
                B, N = features.shape[0], features.shape[2:].numel()
                w = position_weights(weights, B, N, dtype, type(self).__name__)
                # Of the columns of the matrices, which are those of all samples or channels.
                w = w.flatten() if self.across_samples else w.repeat(1, X.shape[2] // N)[:, None]
                mask = w > 0 if weights.dtype == torch.bool else None
            Y = self._whiten(X if mask is None else torch.where(mask, X, 0), w)
            Y = (Y if mask is None else torch.where(mask, Y, 0)).reshape(rows.shape)
            return self._output(Y.transpose(0, 1) if self.across_samples else Y, features)

    def _statistics(self, X: Tensor, w: Tensor | None) -> tuple[Tensor, Tensor, Any]:
        """Means ``(b, n, 1)``, covariances ``(b, n, n)``, and how many values these are made of.

        Weights are worth ``(sum w)^2 / sum w^2`` values (Kish 1965).
        """
        total: Any
        if w is None:
            total = count = X.shape[-1]
            enough = count > 1
        else:
            total, squares = self._sum(torch.stack([v.sum(-1, True) for v in (w, w.square())]))
            count = (total.square() / squares).detach()
            enough = not can_read_values(count) or bool((count > 1).all())
        if not enough:
            got = count if w is None else f"weights that sum up to {float(total.min()):.3g}"
            raise ValueError(self.too_few.format(got))
        mean = self._sum((X if w is None else X * w).sum(-1, keepdim=True)) / total
        A = X - mean
        S = self._sum(product(A if w is None else A * w, A.mT)) / total
        item = "features" if len(S) == 1 else "covariance"
        flat = S.squeeze(0) if len(S) == 1 else S
        check_range(flat, "the covariance", mean, item=item, advice=ADVICE)
        if can_read_values(S) and not is_finite(S):  # those of any process
            raise ValueError(
                f"{type(self).__name__}: the features have NaN or infinite entries; look at the layers "
                "before it and at the learning rate"
            )
        return mean, S, count

    def _output(self, Y: Tensor, features: Tensor) -> Tensor:
        """Whitened features ``(B, C, *)`` after the affine part, like the input."""
        if self.weight is not None and self.bias is not None:
            shape = (self.num_features, *[1] * (Y.dim() - 2))
            Y = Y * self.weight.to(Y.dtype).view(shape) + self.bias.to(Y.dtype).view(shape)
        return Y.to(features.dtype).contiguous(memory_format=_memory_format(features))

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, groups={self.groups}, eps={self.eps}, affine={self.affine}, "
            f"method={self.method}, compute_dtype={self.compute_dtype}"
        )


def _memory_format(features: Tensor) -> torch.memory_format:
    if features.is_contiguous() or features.dim() != 4:
        return torch.contiguous_format
    last = features.is_contiguous(memory_format=torch.channels_last)
    return torch.channels_last if last else torch.contiguous_format
