"""Pooling: features in, one vector per sample out."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from rootpool.linalg import to_triangle, triangle_size, triangle_weights
from rootpool.linalg.parameters import check_at_least
from rootpool.linalg.precision import no_autocast

from .covariance import check_covariance, flatten_positions, weigh, weighted_mean, widened
from .follow_ups import CHANNEL_DROPOUTS
from .fused_derivatives import FusedRoot, encoded, fused_root
from .method import Method
from .precision import check_compute_dtype, kept_dtype, working_dtype
from .registry import resolve_method
from .scaling import Scaling
from .spectral_roots import SpectralRoot

OUTPUTS = ("triangle", "isometric", "matrix")


def covariance_pool(
    features: Tensor,
    method: str | Method = "exact",
    *,
    compute_dtype: torch.dtype | None = None,
    output: str = "triangle",
    weights: Tensor | None = None,
    solver_device: str | torch.device | None = None,
) -> Tensor:
    r"""Normalised covariances of feature maps, with their gradient to the features.

    .. math:: Q = \mathrm{method}\left( \tfrac1N (X - \bar X)(X - \bar X)^T \right)

    (A method that takes second moments, such as :class:`BrownianDistance`, is given those.)

    Spectral roots, such as the default :class:`Exact` (the square root), are computed from the features
    directly. The gradient of the default has no singularity: zero, constant and rank-deficient maps,
    fewer positions than channels and repeated eigenvalues are ordinary. The default is also twice
    differentiable; where maps are rank-deficient, along changes that keep the rank.

    Args:
        features: ``(B, C, H, W)`` or ``(B, C, N)``, any floating-point dtype.
        method: a name in ``METHODS``, or a method with its parameters.
        compute_dtype: the precision of covariance and normalisation: float64, as in the paper, or
            float32 for half the time. None is float64 where the device has it, and float32 elsewhere
            (MPS), with a warning. Singular values below the square root of the precision (1e-7 or 1e-3
            of the largest) count as zeros. With None, ``"exact"`` also takes only those products in
            float64 that need it, and the others in the dtype of the features: result and gradient are
            right to the digits of that.
        output: ``"triangle"``, ``(B, C (C + 1) / 2)`` in row-major order; ``"isometric"``, the
            same with off-diagonal entries times the root of 2, so that inner products equal those between the
            matrices; or ``"matrix"``.
        weights: of the positions, as in :func:`covariance`: a mask for padding, or attention.
        solver_device: where spectral roots decompose, such as ``"cpu"``. None is the device of the features;
            for more than 32 positions and channels on a GPU and torch before 2.12, which decomposes the
            matrices of a batch one after the other there, the CPU.

    Returns:
        The representation in the dtype of the features. It does not depend on the rest
        of the batch or on the number of threads, up to rounding; the bits are the same for the same
        machine, settings and batch.

    >>> covariance_pool(torch.tensor([[[1.0, 3.0], [2.0, 2.0]]]))
    tensor([[1., 0., 0.]])
    >>> covariance_pool(torch.randn(2, 8, 7, 7), "svd-pade").shape
    torch.Size([2, 36])
    """
    _check_options(compute_dtype, output)
    chosen = resolve_method(method)
    X = flatten_positions(features, "covariance_pool")
    own, dtype, P = X.dtype, working_dtype(compute_dtype, X.device), None
    kept = kept_dtype(compute_dtype, dtype, own) if chosen.low_precision_ok else dtype
    form = "matrix" if output == "matrix" else "triangle"
    if weights is not None:
        with no_autocast(X.device):
            X, P = weigh(X, weights, chosen.centred, dtype)
    root = chosen if isinstance(chosen, SpectralRoot) and chosen.centred and P is None else None
    # Here, because torch.export of torch 2.8 hides errors that are raised inside autocast.
    described = encoded(root) if root is not None and torch.compiler.is_compiling() else root
    with no_autocast(X.device):  # half precision would undo compute_dtype
        if described is not None:
            f = FusedRoot(described, dtype, kept, form, str(solver_device or ""))
            Q = fused_root(X, f)
        else:
            Q = chosen.of_features(widened(X, kept)) if P is None else chosen(P)
            Q = Q if form == "matrix" else to_triangle(Q)
        if output == "isometric":
            Q = Q * triangle_weights(X.shape[1], dtype=Q.dtype, device=Q.device)
        pooled = Q.to(own)
    if described is None:
        check_covariance(pooled.flatten(1).unsqueeze(-1), X)
    return pooled


def _check_options(compute_dtype: torch.dtype | None, output: str) -> None:
    """Raise if ``compute_dtype`` or ``output`` is not supported."""
    check_compute_dtype(compute_dtype)
    if output not in OUTPUTS:
        raise ValueError(f"output must be one of {', '.join(OUTPUTS)}, got {output!r}")


class _Pool(nn.Module):
    """What poolings have in common: an optional reduction of the channels before, a scaling after."""

    def __init__(
        self, in_channels: int, reduction: int | None = None, scaling: Scaling | None = None
    ) -> None:
        super().__init__()
        for name, value in (("in_channels", in_channels), ("reduction", reduction)):
            if value is not None:
                check_at_least(name, value, 1)
        if not (scaling is None or callable(scaling)):
            raise TypeError(
                f"scaling must be a function such as Length({scaling!r}), or None, got {scaling!r}"
            )
        self.in_channels = int(in_channels)
        self.channels = int(reduction or in_channels)
        self.reduction = nn.Identity() if reduction is None else _reduce(in_channels, reduction)
        self.scaling = scaling

    @abstractmethod
    def pool(self, features: Tensor, weights: Tensor | None = None) -> Tensor:
        """Pool reduced features."""

    def forward(self, features: Tensor, weights: Tensor | None = None) -> Tensor:
        if features.dim() < 2 or features.shape[1] != self.in_channels:
            raise ValueError(
                f"{type(self).__name__} expects {self.in_channels} channels, "
                f"(B, {self.in_channels}, H, W) or (B, {self.in_channels}, N), "
                f"got {tuple(features.shape)}"
            )
        if features.dim() == 3:
            features = features.unsqueeze(-1)
        pooled = self.pool(self.reduction(features), weights)
        if self.scaling is None:
            return pooled
        return self.scaling(pooled.flatten(1)).view_as(pooled)


def _reduce(in_channels: int, channels: int) -> nn.Sequential:
    convolution = nn.Conv2d(in_channels, channels, kernel_size=1, bias=False)
    # As in both repositories of the paper's line. Batch norm hides the scale of the weights, but large
    # weights learn more slowly.
    nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
    return nn.Sequential(convolution, nn.BatchNorm2d(channels), nn.ReLU(inplace=True))


class CovariancePool(_Pool):
    """Global covariance pooling: optional reduction, covariance, normalisation, upper triangle.

    The method can be changed on a live module (``pool.method = "svd-pade"``): no parameter, buffer or
    optimizer state depends on it. That is what hybrid training does.

    Args:
        in_channels: channels of the features.
        method: a name in ``METHODS``, or a method with its parameters.
        reduction: channels after a 1x1 convolution with batch norm and ReLU (256 in the paper's
            ResNets); None for no reduction.
        compute_dtype: the precision of covariance and normalisation; None as in
            :func:`covariance_pool`: ``"exact"`` takes float64 for the decomposition only.
        output: ``"triangle"``, ``"isometric"`` or ``"matrix"``, as in :func:`covariance_pool`.
        scaling: applied to the vector of each sample, such as :class:`Length`;
            None, as in the paper, leaves it alone.
        channel_dropout: a module that is applied to the reduced features, such as
            :class:`AdaptiveChannelDropout`; None for none.
        solver_device: where spectral roots decompose, as in :func:`covariance_pool`.

    Shape:
        ``(B, in_channels, H, W)`` or ``(B, in_channels, N)`` to ``(B, out_features)``, or
        ``(B, C, C)`` for ``output="matrix"``, with C the channels after the reduction. A second argument,
        ``pool(features, weights)``, is weights of the positions, as in :func:`covariance`.

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
        compute_dtype: torch.dtype | None = None,
        output: str = "triangle",
        scaling: Scaling | None = None,
        channel_dropout: nn.Module | None = None,
        solver_device: str | torch.device | None = None,
    ) -> None:
        super().__init__(in_channels, reduction, scaling)
        _check_options(compute_dtype, output)
        self.solver_device = solver_device
        self.channel_dropout = nn.Identity() if channel_dropout is None else channel_dropout
        self.compute_dtype = compute_dtype
        self.output = output
        self.method = method

    @property
    def method(self) -> Method:
        """How covariances are normalised; assign a name or a value to change it."""
        return self._method

    @method.setter
    def method(self, method: str | Method) -> None:
        self._method = resolve_method(method)

    def working_dtype(self, device: torch.device) -> torch.dtype:
        """The precision that it computes in on a device."""
        return working_dtype(self.compute_dtype, device)

    @property
    def out_features(self) -> int:
        """Number of output features per sample."""
        return self.channels**2 if self.output == "matrix" else triangle_size(self.channels)

    def pool(self, features: Tensor, weights: Tensor | None = None) -> Tensor:
        """Pool reduced features."""
        return covariance_pool(
            self.channel_dropout(features),
            self._method,
            compute_dtype=self.compute_dtype,
            output=self.output,
            weights=weights,
            solver_device=self.solver_device,
        )

    def extra_repr(self) -> str:
        return (
            f"{self.in_channels}, method={self._method}, compute_dtype={self.compute_dtype}, "
            f"output={self.output!r}, scaling={self.scaling}, out_features={self.out_features}"
        )


class AveragePool(_Pool):
    """Global average pooling, the first-order baseline, with the same reduction and scaling.

    Use: to measure what second-order statistics contribute.

    Args:
        in_channels: channels of the features.
        reduction: channels after a 1x1 convolution with batch norm and ReLU; None for no reduction.
        scaling: applied to the vector of each sample; None leaves it alone.

    Shape:
        ``(B, in_channels, H, W)`` or ``(B, in_channels, N)`` to ``(B, out_features)``.

    >>> AveragePool(2048)(torch.randn(2, 2048, 7, 7)).shape
    torch.Size([2, 2048])
    """

    name: ClassVar[str] = "gap"  # of global average pooling, as everybody calls it

    @property
    def method(self) -> str:
        """Its name in ``POOLS``. It cannot be changed: covariances have another number of features."""
        return self.name

    @method.setter
    def method(self, method: str | Method) -> None:
        raise ValueError(
            f"cannot change {self.name} to {method}: the number of features would change, and the "
            "classifier with it; make a new CovariancePool"
        )

    @property
    def out_features(self) -> int:
        """Number of output features per sample."""
        return self.channels

    def pool(self, features: Tensor, weights: Tensor | None = None) -> Tensor:
        """Average over the positions."""
        X = flatten_positions(features, "AveragePool")
        return X.mean(-1) if weights is None else weighted_mean(X, weights, "AveragePool")

    def extra_repr(self) -> str:
        return f"{self.in_channels}, scaling={self.scaling}, out_features={self.out_features}"


# Poolings without a covariance, by the names that create_model and recipes take beside those of METHODS; a
# subclass of your own can be added.
POOLS: dict[str, type[AveragePool]] = {AveragePool.name: AveragePool}


def resolve_pool(pool: str | Method, **options: Any) -> str | Method:
    """A name in ``POOLS`` itself, or the method of that name; see :func:`resolve_method`.

    >>> resolve_pool("gap"), resolve_pool("exact")
    ('gap', Exact())
    """
    if pool in POOLS:
        if options:
            raise ValueError(f"{pool} has no options, got {options!r:.200}")
        return pool
    return resolve_method(pool, **options)


def make_pool(
    in_channels: int,
    pool: str | Method = "exact",
    reduction: int | None = None,
    *,
    compute_dtype: torch.dtype | None = None,
    output: str = "triangle",
    scaling: Scaling | None = None,
    channel_dropout: str | None = None,
) -> CovariancePool | AveragePool:
    """The pooling of a name: :class:`AveragePool` for ``"gap"``, or :class:`CovariancePool` for a method.

    ``compute_dtype`` and ``output`` are options of covariances; averages have no use for them.
    ``channel_dropout`` is ``"adaptive"`` for :class:`AdaptiveChannelDropout`, which is for covariances only.

    >>> make_pool(64, "gap")
    AveragePool(...)
    >>> make_pool(64, "svd-pade", reduction=16).out_features
    136
    """
    _check_options(compute_dtype, output)
    if channel_dropout is not None and channel_dropout not in CHANNEL_DROPOUTS:
        known = ", ".join(CHANNEL_DROPOUTS)
        raise ValueError(f"channel_dropout must be {known} or None, got {channel_dropout!r}")
    if isinstance(pool, str) and pool in POOLS:
        if channel_dropout is not None:
            raise ValueError(
                f"channel_dropout={channel_dropout!r} is for the features before a covariance, and {pool} "
                'has none; leave it out, or choose a method such as "covariance"'
            )
        return POOLS[pool](in_channels, reduction, scaling)
    before = None if channel_dropout is None else CHANNEL_DROPOUTS[channel_dropout]()
    return CovariancePool(in_channels, pool, reduction, compute_dtype, output, scaling, before)
