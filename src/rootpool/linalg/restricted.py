"""A scalar function on part of the spectrum: small eigenvalues raised, or all but the largest dropped."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .parameters import check_at_least, check_positive
from .scalar import ScalarFunction

__all__ = ["Floored", "Leading"]


@dataclass(frozen=True)
class Floored(ScalarFunction):
    r""":math:`f(\max(\lambda, floor))` and the derivative of just that.

    By the chain rule for divided differences, :math:`(f \circ c)[x, y] = f[c(x), c(y)]\, c[x, y]`,
    with :math:`c[x, y]` between 0 (both raised) and 1 (neither).
    """

    inner: ScalarFunction
    floor: float

    def __post_init__(self) -> None:
        check_positive("eigenvalue_floor", self.floor)

    @property
    def domain(self) -> str:
        return "any"

    def kernel_spectrum(self, lam: Tensor) -> Tensor:
        return lam.clamp_min(self.floor)

    def values(self, lam: Tensor) -> Tensor:
        return self.inner.values(lam.clamp_min(self.floor))

    def derivatives(self, lam: Tensor) -> Tensor:
        return torch.where(lam >= self.floor, self.inner.derivatives(lam.clamp_min(self.floor)), 0)

    def divided_differences(self, lam: Tensor) -> Tensor:
        raised = lam.clamp_min(self.floor)
        gap = lam.unsqueeze(-1) - lam.unsqueeze(-2)
        share = (raised.unsqueeze(-1) - raised.unsqueeze(-2)) / torch.where(gap == 0, 1, gap)
        alive = (lam >= self.floor).to(lam.dtype).unsqueeze(-1)
        return self.inner.divided_differences(raised) * torch.where(gap == 0, alive, share)


@dataclass(frozen=True)
class Leading(ScalarFunction):
    r""":math:`f` on the ``count`` largest eigenvalues and 0 on the others (the paper's TopN).

    Between a kept and a dropped eigenvalue the coefficient is
    :math:`f(\lambda_i)/(\lambda_i - \lambda_j)`. At an exact tie across the cut the function is
    discontinuous and the coefficient is 0.
    """

    inner: ScalarFunction
    count: int

    def __post_init__(self) -> None:
        check_at_least("keep_largest", self.count, 1)

    @property
    def domain(self) -> str:
        return self.inner.domain

    def _kept(self, lam: Tensor) -> Tensor:
        n = lam.shape[-1]
        return torch.arange(n, device=lam.device) >= n - self.count

    def kernel_spectrum(self, lam: Tensor) -> Tensor:
        return self.inner.kernel_spectrum(lam)

    def values(self, lam: Tensor) -> Tensor:
        return torch.where(self._kept(lam), self.inner.values(lam), 0)

    def derivatives(self, lam: Tensor) -> Tensor:
        return torch.where(self._kept(lam), self.inner.derivatives(lam), 0)

    def divided_differences(self, lam: Tensor) -> Tensor:
        kept, values = self._kept(lam), self.values(lam)
        both = kept.unsqueeze(-1) & kept.unsqueeze(-2)
        gap = lam.unsqueeze(-1) - lam.unsqueeze(-2)
        rise = values.unsqueeze(-1) - values.unsqueeze(-2)
        across = torch.where(gap == 0, 0, rise / torch.where(gap == 0, 1, gap))
        return torch.where(both, self.inner.divided_differences(lam), across)
