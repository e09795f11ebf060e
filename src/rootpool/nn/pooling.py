"""Covariance pooling: features in, one vector a sample out."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rootpool.linalg import to_triangle, triangle_size, triangle_weights

from .covariance import check_covariance, covariance, flatten_positions
from .method import Method
from .methods import METHODS, resolve_method
from .normalisations import GlobalAverage
from .root import check_options, covariance_root
from .scaling import Scaling
from .spectral_roots import Exact, SpectralRoot

__all__ = ["CovariancePool", "covariance_pool"]


def covariance_pool(
    features: Tensor,
    method: str | Method = "exact",
    *,
    compute_dtype: torch.dtype = torch.float64,
    output: str = "triangle",
) -> Tensor:
    """Normalised covariances of feature maps, or their averages for ``"gap"``.

    Args:
        features: ``(B, C, H, W)`` or ``(B, C, N)``, any floating-point dtype.
        method: a name in ``METHODS`` or ``BASELINES``, or a method with its parameters.
        compute_dtype: what covariance and normalisation are computed in, float64 in the paper.
        output: ``"triangle"``, ``(B, C (C + 1) / 2)`` in row-major order; ``"isometric"``, the
            same with off-diagonal entries times the root of 2, so that inner products are those of the
            matrices; or ``"matrix"``.

    Returns:
        The representation in the dtype of the features; ``(B, C)`` for ``"gap"``.

    >>> covariance_pool(torch.randn(2, 8, 7, 7), "svd-pade").shape
    torch.Size([2, 36])
    """
    method = resolve_method(method)
    check_options(compute_dtype, output)
    X = flatten_positions(features, "covariance_pool")
    if isinstance(method, GlobalAverage):
        return X.mean(-1)
    with torch.autocast(X.device.type, enabled=False):  # half precision would undo compute_dtype
        if isinstance(method, SpectralRoot) and type(method) in METHODS.values():
            return covariance_root(X, method, compute_dtype=compute_dtype, output=output)
        Q = method(covariance(X.to(compute_dtype)))
        if output != "matrix":
            Q = to_triangle(Q)
        if output == "isometric":
            Q = Q * triangle_weights(X.shape[1], dtype=Q.dtype, device=Q.device)
        pooled = Q.to(X.dtype)
    check_covariance(pooled.flatten(1).unsqueeze(-1), X)
    return pooled


class CovariancePool(nn.Module):
    """Global covariance pooling: optional reduction, covariance, normalisation, upper triangle.

    The method can be changed on a live module (``pool.method = "svd-pade"``): no parameter, buffer or
    optimizer state depends on it. That is what hybrid training does.

    Args:
        in_channels: channels of the features.
        method: a name in ``METHODS`` or ``BASELINES``, or a method with its parameters.
        reduction: channels after a 1x1 convolution with batch norm and ReLU (256 in the paper's
            ResNets); None for no reduction.
        compute_dtype: what covariance and normalisation are computed in.
        output: ``"triangle"``, ``"isometric"`` or ``"matrix"``, as in :func:`covariance_pool`.
        scaling: what is done to the vector of each sample, :class:`Length` or :class:`Factor`;
            None, as in the paper, leaves it alone.

    Shape:
        ``(B, in_channels, H, W)`` or ``(B, in_channels, N)`` to ``(B, out_features)``, or
        ``(B, C, C)`` for ``output="matrix"``, with C the channels after the reduction.

    >>> pool = CovariancePool(2048, reduction=256)
    >>> pool.out_features
    32896
    >>> pool(torch.randn(2, 2048, 7, 7)).shape
    torch.Size([2, 32896])
    """

    def __init__(
        self,
        in_channels: int,
        method: str | Method = "exact",
        reduction: int | None = None,
        compute_dtype: torch.dtype = torch.float64,
        output: str = "triangle",
        scaling: Scaling | None = None,
    ) -> None:
        super().__init__()
        for name, value in (("in_channels", in_channels), ("reduction", reduction)):
            if value is not None and (not isinstance(value, int) or value < 1):
                raise ValueError(f"{name} must be a positive integer, got {value!r}")
        check_options(compute_dtype, output)
        if scaling is not None and not isinstance(scaling, Scaling):
            raise TypeError(
                f"scaling must be a Scaling, such as Length({scaling!r}), or None, got {scaling!r}"
            )
        self.in_channels = in_channels
        self.compute_dtype = compute_dtype
        self.output = output
        self.scaling = scaling
        self.reduction = (
            nn.Identity()
            if reduction is None
            else nn.Sequential(
                nn.Conv2d(in_channels, reduction, kernel_size=1, bias=False),
                nn.BatchNorm2d(reduction),
                nn.ReLU(inplace=True),
            )
        )
        self.channels = reduction or in_channels
        self._method: Method = Exact()
        self._method = resolve_method(method)

    @property
    def method(self) -> Method:
        """How covariances are normalised; assign a name or a value to change it."""
        return self._method

    @method.setter
    def method(self, method: str | Method) -> None:
        new = resolve_method(method)
        if isinstance(new, GlobalAverage) != isinstance(self._method, GlobalAverage):
            raise ValueError(
                f"cannot change from {self._method} to {new}: the number of features would change, "
                "and the classifier with it; make a new CovariancePool"
            )
        self._method = new

    @property
    def out_features(self) -> int:
        """Numbers a sample in the output."""
        if isinstance(self._method, GlobalAverage):
            return self.channels
        return self.channels**2 if self.output == "matrix" else triangle_size(self.channels)

    def forward(self, features: Tensor) -> Tensor:
        if features.dim() < 2 or features.shape[1] != self.in_channels:
            raise ValueError(
                f"CovariancePool expects {self.in_channels} channels, (B, {self.in_channels}, H, W) "
                f"or (B, {self.in_channels}, N), got {tuple(features.shape)}"
            )
        if features.dim() == 3:
            features = features.unsqueeze(-1)
        pooled = covariance_pool(
            self.reduction(features),
            self._method,
            compute_dtype=self.compute_dtype,
            output=self.output,
        )
        if self.scaling is None:
            return pooled
        return self.scaling(pooled.flatten(1)).view_as(pooled)

    def extra_repr(self) -> str:
        return (
            f"{self.in_channels}, method={self._method}, compute_dtype={self.compute_dtype}, "
            f"output={self.output!r}, scaling={self.scaling}, out_features={self.out_features}"
        )
