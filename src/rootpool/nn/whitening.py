"""Whitening of batches, with running statistics and process groups, and of each sample by itself."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from rootpool.linalg.checks import can_read_values, check_range, is_finite
from rootpool.linalg.parameters import check_at_least
from rootpool.linalg.precision import no_autocast, product

from .covariance import ADVICE as COVARIANCE_ADVICE
from .covariance import position_weights
from .precision import check_compute_dtype, working_dtype
from .processes import ProcessGroup, is_distributed, sum_over_processes
from .whitening_methods import WhiteningMethod, resolve_whitening

ADVICE = "divide the features by a constant, or keep the statistics in float64: whitening.double()"


class _Whitening(nn.Module):
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

    def _matrix(self, S: Tensor, rounding: float = 0.0) -> Tensor:
        return self.method(S, self.eps, rounding).to(S.dtype)

    def _whiten(self, X: Tensor, w: Tensor | None) -> Tensor:
        mean, covariance, _ = self._statistics(X, w)
        return product(self._matrix(covariance), X - mean)

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
        check_range(flat, "the covariance", mean, item=item, advice=COVARIANCE_ADVICE)
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


class Whitening(_Whitening):
    r"""Whitening :math:`Y = W (X - \mu)` of the channels, over the batch.

    By default :math:`W = (\Sigma + \varepsilon I)^{-1/2}` (ZCA). With ``groups`` the channels are split
    into groups of neighbours, each of which is whitened by itself, as in DBN and IterNorm; all in one
    batched decomposition.

    While training, mean and covariance come from the batch, over samples and positions and, when a
    process group is initialised, over all its processes: one process with a batch of B gives the same
    result as two with B/2 each, up to rounding, and the same gradients. In evaluation they are running
    averages (unbiased, as in ``BatchNorm``) of means and covariances, whose inverse root is
    computed then: an average of inverse roots is not the inverse root of anything. The gradient is exact
    at repeated eigenvalues. Fewer samples than channels are fine.

    The buffer ``running_covariance`` is ``(groups, n, n)`` with n channels per group, and ``(C, C)`` for one
    group.

    Args:
        num_features: channels C.
        eps: ridge :math:`\varepsilon`, which bounds the gain by its inverse square root.
        momentum: weight of a new batch in the running statistics; None for the average of all batches.
        compute_dtype: the precision of statistics and inverse root; None for float64 where the device
            has it, and float32 elsewhere (MPS).
        groups: number of groups; it must divide the channels.
        affine: whether a learned scale and shift of each channel follow, as in ``BatchNorm``.
        method: ``"exact"``, ``"newton"`` (IterNorm) or ``"cholesky"``, or a value such as
            ``NewtonWhitening(iterations=7)``. It can be changed on a live module.
        process_group: the ``torch.distributed`` process group that shares its statistics; None for the
            default one. A group of a single process does not share them.

    Shape:
        ``(B, C, *)`` to the same. A second argument, ``whitening(features, weights)``, is the weights
        ``(B, *)`` of positions in the statistics: numbers of at least 0, or a boolean mask, which also sets
        the others to zero. (For ``(B, C)`` they are ``(B, 1)``.)

    References: Huang et al., Decorrelated batch normalization, CVPR 2018; and the references of the methods.

    >>> Y = Whitening(3, eps=1e-9)(torch.randn(64, 3, 5, 5))
    >>> torch.allclose(Y.transpose(0, 1).flatten(1).cov(), torch.eye(3), atol=1e-2)
    True
    >>> layer = Whitening(512, groups=8, affine=True, method="newton")
    >>> layer.running_covariance.shape
    torch.Size([8, 64, 64])
    """

    across_samples = True
    too_few = (
        "Whitening needs two values or more per channel while training, got {}; use eval(), or a "
        "larger batch"
    )
    running_mean: Tensor
    running_covariance: Tensor
    num_batches_tracked: Tensor

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        compute_dtype: torch.dtype | None = None,
        *,
        groups: int = 1,
        affine: bool = False,
        method: str | WhiteningMethod = "exact",
        process_group: ProcessGroup = None,
    ) -> None:
        if momentum is not None and not 0 < momentum <= 1:
            raise ValueError(f"momentum must be in (0, 1] or None, got {momentum!r}")
        super().__init__(
            num_features, groups, eps, affine=affine, method=method, compute_dtype=compute_dtype
        )
        self.momentum, self.process_group = momentum, process_group
        n = self.num_features // self.groups
        several = (self.groups,) if self.groups > 1 else ()
        self.register_buffer("running_mean", torch.zeros(self.num_features))
        self.register_buffer("running_covariance", torch.eye(n).repeat(*several, 1, 1))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def reset_parameters(self) -> None:
        """Set the affine part to the identity, and forget all batches, as ``BatchNorm`` does."""
        super().reset_parameters()
        self.reset_running_stats()

    def reset_running_stats(self) -> None:
        """Forget all batches: mean 0, covariance 1."""
        self.running_mean.zero_()
        n = self.running_covariance.shape[-1]
        self.running_covariance.copy_(torch.eye(n).to(self.running_covariance))
        self.num_batches_tracked.zero_()

    def _sum(self, here: Tensor) -> Tensor:
        return sum_over_processes(here, self.process_group)

    def _whiten(self, X: Tensor, w: Tensor | None) -> Tensor:
        if not self.training:
            mean = self.running_mean.to(X.dtype).view(*X.shape[:2], 1)
            covariance = self.running_covariance.to(X.dtype).view(*X.shape[:2], -1)
            rounding = torch.finfo(self.running_covariance.dtype).eps
            return product(self._matrix(covariance, rounding), X - mean)
        if w is None and is_distributed(self.process_group):
            w = X.new_ones(X.shape[-1])  # all values count alike, wherever they are
        mean, covariance, count = self._statistics(X, w)
        Y = product(self._matrix(covariance), X - mean)
        # After the root: a broken batch does not spoil the running statistics.
        self._track(mean, covariance, count)
        return Y

    @torch.no_grad()
    def _track(self, mean: Tensor, covariance: Tensor, count: Tensor | int) -> None:
        unbiased = covariance.reshape_as(self.running_covariance) * (count / (count - 1))
        tracked = unbiased.to(self.running_covariance.dtype)
        # An infinity would stay forever.
        check_range(tracked, "the running covariance", unbiased, item="features", advice=ADVICE)
        self.num_batches_tracked.add_(1)
        weight: Any = self.momentum
        if weight is None:
            weight = 1 / self.num_batches_tracked.to(tracked.dtype)
        self.running_mean.lerp_(mean.flatten().to(self.running_mean.dtype), weight)
        self.running_covariance.lerp_(tracked, weight)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, momentum={self.momentum}"


class GroupWhitening(_Whitening):
    r"""Group Whitening: each sample is whitened by itself, between groups of its channels.

    A sample with C channels and N positions becomes a matrix X of g rows, one per group of C/g neighbouring
    channels, and m = (C/g) N columns. With :math:`\mu` the mean of each row,

    .. math::
        \Sigma = \tfrac1m (X - \mu)(X - \mu)^T, \qquad Y = W (X - \mu),

    where :math:`W = (\Sigma + \varepsilon I)^{-1/2}` by default, takes the place of X. So
    the groups are decorrelated, not the channels within one: group norm, with whitening instead of
    standardisation. Nothing depends on other samples, there are no running statistics, and training and
    evaluation are the same.

    Args:
        num_features: channels C.
        groups: number of groups g, which must divide the channels; 64 in the paper's networks. A sample
            should have more than g columns, m > g.
        eps, affine, method, compute_dtype: as in :class:`Whitening`.

    Shape:
        ``(B, C, *)`` to the same. A second argument is the weights ``(B, *)`` of positions, as in
        :class:`Whitening`.

    Reference: Huang et al., Group whitening: balancing learning efficiency and representational capacity,
    CVPR 2021.

    >>> Y = GroupWhitening(6, groups=3, eps=1e-9)(torch.randn(2, 6, 5, 5))
    >>> rows = Y[0].reshape(3, -1)
    >>> torch.allclose(rows @ rows.T / 50, torch.eye(3), atol=1e-4)
    True
    """

    across_samples = False
    too_few = (
        "GroupWhitening needs two values or more per group and sample, got {}; use fewer groups, or "
        "larger maps"
    )
