"""What whitening layers have in common: their options, the checks of their input, and their output."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rootpool.linalg.checks import can_read_values, check_range, is_finite
from rootpool.linalg.parameters import check_at_least

from .covariance import ADVICE
from .precision import check_compute_dtype
from .whitening_methods import WhiteningMethod, resolve_whitening

__all__ = ["WhiteningLayer"]


class WhiteningLayer(nn.Module):
    """Options, affine part and checks; a subclass says what the statistics are taken over."""

    weight: nn.Parameter | None
    bias: nn.Parameter | None

    def __init__(
        self,
        num_features: int,
        groups: int,
        eps: float,
        affine: bool,
        method: str | WhiteningMethod,
        compute_dtype: torch.dtype | None,
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

    def _check_covariance(self, S: Tensor, mean: Tensor) -> None:
        """Raise for features that are not finite, or whose squares are not."""
        item = "features" if len(S) == 1 else "covariance"
        S = S.squeeze(0) if len(S) == 1 else S
        check_range(S, "the covariance", mean, item=item, advice=ADVICE)
        if can_read_values(S) and not is_finite(S):  # those of any process
            raise ValueError(
                f"{type(self).__name__}: the features have NaN or infinite entries; look at the layers "
                "before it and at the learning rate"
            )

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
