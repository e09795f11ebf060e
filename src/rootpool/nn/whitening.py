"""ZCA whitening of batches, with running statistics and process groups."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from rootpool.linalg import inv_sqrtm
from rootpool.linalg.checks import check_range, checks_enabled, is_finite, may_check
from rootpool.linalg.parameters import is_integer
from rootpool.linalg.precision import no_autocast

from .covariance import check_covariance
from .precision import check_compute_dtype, working_dtype

__all__ = ["Whitening"]

ADVICE = "divide the features by a constant, or keep the statistics in float64: whitening.double()"


class _SumOverProcesses(torch.autograd.Function):
    """Sum over the default process group; the gradient of a sum is the sum of the gradients."""

    @staticmethod
    def forward(value: Tensor) -> Tensor:
        total = value.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return _SumOverProcesses.apply(gradient.contiguous())  # type: ignore[no-any-return]


def _distributed() -> bool:
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def _memory_format(features: Tensor) -> torch.memory_format:
    if features.is_contiguous() or features.dim() != 4:
        return torch.contiguous_format
    last = features.is_contiguous(memory_format=torch.channels_last)
    return torch.channels_last if last else torch.contiguous_format


def _total(value: Tensor) -> Tensor:
    if _distributed():
        return _SumOverProcesses.apply(value)  # type: ignore[no-any-return]
    return value


class Whitening(nn.Module):
    r"""ZCA whitening :math:`Y = (\Sigma + \varepsilon I)^{-1/2} (X - \mu)` of the channels.

    While training, mean and covariance are those of the batch, over samples and positions and, when a
    process group is initialised, over all its processes: one process with a batch of B gives the same
    result as two with B/2 each, up to rounding. In evaluation they are running averages (unbiased,
    like those of ``BatchNorm``). The gradient is exact at repeated eigenvalues.

    Args:
        num_features: channels C.
        eps: ridge :math:`\varepsilon`, which bounds the gain by its inverse square root.
        momentum: weight of a new batch in the running statistics; None for the average of all batches.
        compute_dtype: the precision of statistics and inverse root; None for float64 where the device
            has it, and float32 elsewhere (MPS).

    Shape:
        ``(B, C, *)`` to the same.

    >>> Y = Whitening(3, eps=1e-9)(torch.randn(64, 3, 5, 5))
    >>> torch.allclose(Y.transpose(0, 1).flatten(1).cov(), torch.eye(3), atol=1e-2)
    True
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
    ) -> None:
        super().__init__()
        if not is_integer(num_features) or num_features < 1:
            raise ValueError(f"num_features must be a positive integer, got {num_features!r}")
        if not eps > 0:
            raise ValueError(f"eps must be positive, got {eps!r}")
        if momentum is not None and not 0 < momentum <= 1:
            raise ValueError(f"momentum must be in (0, 1] or None, got {momentum!r}")
        check_compute_dtype(compute_dtype)
        self.num_features, self.eps, self.momentum = int(num_features), eps, momentum
        self.compute_dtype = compute_dtype
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("running_covariance", torch.eye(num_features))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def reset_running_stats(self) -> None:
        """Forget all batches: mean 0, covariance 1."""
        self.running_mean.zero_()
        torch.nn.init.eye_(self.running_covariance)
        self.num_batches_tracked.zero_()

    def _batch_statistics(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor | int]:
        """Mean ``(C, 1)``, covariance ``(C, C)`` and M of ``(C, M)`` over all processes."""
        count: Tensor | int = X.shape[1]
        if _distributed():
            count = _total(torch.tensor(float(count), dtype=X.dtype, device=X.device))
        if checks_enabled() and count < 2:
            raise ValueError(
                "Whitening needs two values or more per channel while training, got "
                f"{int(count)}; use eval(), or a larger batch"
            )
        mean = _total(X.sum(1, keepdim=True)) / count
        centred = X - mean
        covariance = _total(centred @ centred.mT) / count
        check_covariance(covariance, mean)
        if may_check(covariance) and not is_finite(covariance):  # those of any process
            raise ValueError(
                "Whitening: the features have NaN or infinite entries; look at the layers before it "
                "and at the learning rate"
            )
        return mean, covariance, count

    @torch.no_grad()
    def _track(self, mean: Tensor, covariance: Tensor, count: Tensor | int) -> None:
        unbiased = covariance * (count / (count - 1))
        tracked = unbiased.to(self.running_covariance.dtype)
        # An infinity would stay forever.
        check_range(tracked, "the running covariance", covariance, item="features", advice=ADVICE)
        self.num_batches_tracked.add_(1)
        weight: Any = self.momentum
        if weight is None:
            weight = 1 / self.num_batches_tracked.to(tracked.dtype)
        self.running_mean.lerp_(mean[:, 0].to(self.running_mean.dtype), weight)
        self.running_covariance.lerp_(tracked, weight)

    def forward(self, features: Tensor) -> Tensor:
        if features.dim() < 2 or features.shape[1] != self.num_features:
            raise ValueError(
                f"Whitening expects (B, {self.num_features}, *), got {tuple(features.shape)}"
            )
        if not features.is_floating_point():
            raise TypeError(
                f"Whitening expects floating-point features, got {features.dtype}; cast with "
                "features.float()"
            )
        with no_autocast(features.device):
            dtype = working_dtype(self.compute_dtype, features.device)
            X = features.to(dtype).transpose(0, 1).flatten(1)
            if self.training:
                mean, covariance, count = self._batch_statistics(X)
            else:
                mean = self.running_mean.to(X.dtype).unsqueeze(1)
                covariance = self.running_covariance.to(X.dtype)
            ridge = self.eps * torch.eye(self.num_features, dtype=X.dtype, device=X.device)
            # Round-off, that of the running statistics too, may take eigenvalues below the ridge.
            root = inv_sqrtm(covariance + ridge, eigenvalue_floor=self.eps / 2)
            Y = root @ (X - mean)
            # After the root: a broken batch does not spoil the running statistics.
            if self.training:
                self._track(mean, covariance, count)
        samples_first = Y.reshape(features.transpose(0, 1).shape).transpose(0, 1)
        return samples_first.to(features.dtype).contiguous(memory_format=_memory_format(features))

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"compute_dtype={self.compute_dtype}"
        )
