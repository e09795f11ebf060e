"""Whitening of batches, with running statistics and process groups, and of each sample by itself."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rootpool.linalg.checks import check_range, checks_enabled
from rootpool.linalg.precision import no_autocast
from rootpool.linalg.products import product

from .precision import working_dtype
from .processes import ProcessGroup, is_distributed, sum_over_processes
from .whitening_layer import WhiteningLayer
from .whitening_methods import WhiteningMethod

__all__ = ["GroupWhitening", "Whitening"]

ADVICE = "divide the features by a constant, or keep the statistics in float64: whitening.double()"


class Whitening(WhiteningLayer):
    r"""Whitening :math:`Y = W (X - \mu)` of the channels, over the batch.

    By default :math:`W = (\Sigma + \varepsilon I)^{-1/2}` (ZCA). With ``groups`` the channels are split
    into groups of neighbours, each of which is whitened by itself, as in DBN and IterNorm; all in one
    batched decomposition.

    While training, mean and covariance come from the batch, over samples and positions and, when a
    process group is initialised, over all its processes: one process with a batch of B gives the same
    result as two with B/2 each, up to rounding, and the same gradients. In evaluation they are running
    averages (unbiased, like those of ``BatchNorm``) of means and covariances, whose inverse root is
    computed then: an average of inverse roots is not the inverse root of anything. The gradient is exact
    at repeated eigenvalues. Fewer samples than channels are fine.

    The buffer ``running_covariance`` is ``(groups, n, n)`` with n channels per group, and ``(C, C)`` for one
    group. A layer with several groups also loads the statistics of one with a single group: the blocks on
    the diagonal.

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
        ``(B, C, *)`` to the same.

    References: Huang et al., Decorrelated batch normalization, CVPR 2018; and the references of the methods.

    >>> Y = Whitening(3, eps=1e-9)(torch.randn(64, 3, 5, 5))
    >>> torch.allclose(Y.transpose(0, 1).flatten(1).cov(), torch.eye(3), atol=1e-2)
    True
    >>> layer = Whitening(512, groups=8, affine=True, method="newton")
    >>> layer.running_covariance.shape
    torch.Size([8, 64, 64])
    """

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
        super().__init__(num_features, groups, eps, affine, method, compute_dtype)
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

    def _batch_statistics(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor | int]:
        """Mean ``(g, n, 1)``, covariance ``(g, n, n)`` and M of ``(g, n, M)`` over all processes."""
        count: Tensor | int = X.shape[-1]
        if is_distributed(self.process_group):
            here = torch.tensor(float(count), dtype=X.dtype, device=X.device)
            count = sum_over_processes(here, self.process_group)
        if checks_enabled() and count < 2:
            raise ValueError(
                "Whitening needs two values or more per channel while training, got "
                f"{int(count)}; use eval(), or a larger batch"
            )
        mean = sum_over_processes(X.sum(-1, keepdim=True), self.process_group) / count
        centred = X - mean
        covariance = sum_over_processes(product(centred, centred.mT), self.process_group) / count
        self._check_covariance(covariance, mean)
        return mean, covariance, count

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

    def forward(self, features: Tensor) -> Tensor:
        self._check_features(features)
        with no_autocast(features.device):
            dtype = working_dtype(self.compute_dtype, features.device)
            per_group = (self.groups, self.num_features // self.groups)
            X = features.to(dtype).transpose(0, 1).flatten(1).unflatten(0, per_group)
            if self.training:
                mean, covariance, count = self._batch_statistics(X)
                rounding = 0.0
            else:
                mean = self.running_mean.to(dtype).view(*per_group, 1)
                covariance = self.running_covariance.to(dtype).view(*per_group, -1)
                rounding = torch.finfo(self.running_covariance.dtype).eps
            Y = self.method(covariance, X - mean, self.eps, rounding)
            # After the root: a broken batch does not spoil the running statistics.
            if self.training:
                self._track(mean, covariance, count)
            samples_first = Y.reshape(features.transpose(0, 1).shape).transpose(0, 1)
            return self._output(samples_first, features)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        key = prefix + "running_covariance"
        whole = state_dict.get(key)
        if self.groups > 1 and whole is not None and whole.shape == 2 * (self.num_features,):
            blocks = whole.unflatten(1, (self.groups, -1)).unflatten(0, (self.groups, -1))
            state_dict[key] = blocks.diagonal(dim1=0, dim2=2).movedim(-1, 0).contiguous()
        super()._load_from_state_dict(state_dict, prefix, *args)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, momentum={self.momentum}"


class GroupWhitening(WhiteningLayer):
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
        eps: ridge :math:`\varepsilon`.
        affine: whether a learned scale and shift of each channel follow.
        method: ``"exact"``, ``"newton"`` or ``"cholesky"``, or a value such as
            ``NewtonWhitening(iterations=7)``.
        compute_dtype: the precision of statistics and inverse root; None for float64 where the device
            has it.

    Shape:
        ``(B, C, *)`` to the same.

    Reference: Huang et al., Group whitening: balancing learning efficiency and representational capacity,
    CVPR 2021.

    >>> Y = GroupWhitening(6, groups=3, eps=1e-9)(torch.randn(2, 6, 5, 5))
    >>> rows = Y[0].reshape(3, -1)
    >>> torch.allclose(rows @ rows.T / 50, torch.eye(3), atol=1e-4)
    True
    """

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
        super().__init__(num_features, groups, eps, affine, method, compute_dtype)

    def forward(self, features: Tensor) -> Tensor:
        self._check_features(features)
        columns = features.shape[1:].numel() // self.groups
        if columns < 2:
            raise ValueError(
                f"GroupWhitening needs two values or more per group and sample, got {columns}; use fewer "
                "groups, or larger maps"
            )
        with no_autocast(features.device):
            dtype = working_dtype(self.compute_dtype, features.device)
            X = features.to(dtype).reshape(len(features), self.groups, columns)
            mean = X.mean(-1, keepdim=True)
            centred = X - mean
            covariance = product(centred, centred.mT) / columns
            self._check_covariance(covariance, mean)
            Y = self.method(covariance, centred, self.eps, 0.0)
            return self._output(Y.reshape(features.shape), features)
