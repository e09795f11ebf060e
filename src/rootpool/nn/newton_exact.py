"""The value of the Newton-Schulz iteration with the gradient of the exact root."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rootpool.linalg import newton_schulz, sqrtm

from .method import check_iterations
from .spectral_roots import Exact, relative

__all__ = ["NewtonExact"]


@dataclass(frozen=True)
class NewtonExact(Exact):
    r"""Newton-Schulz forward, the gradient of the exact root backward.

    The value is that of :class:`ISqrtCov`. The gradient is the one of :class:`Exact` at the same
    covariance: for an upstream gradient G, that of :math:`\langle G, P^{1/2} \rangle`. It is not the
    derivative of the value. SVD-Newton is the opposite, the exact root with the gradient of the
    iteration; together with the two pure methods they tell which half of Newton-Schulz matters.

    The iteration is a polynomial of :math:`P / \mathrm{tr} P`, so it acts on each eigenvalue alone.
    """

    name: ClassVar[str] = "newton-exact"
    source: ClassVar[str] = "ours"
    use: ClassVar[str] = "to tell the value of Newton-Schulz from its gradient; svd-newton reversed"

    iterations: int = 5

    def __post_init__(self) -> None:
        check_iterations("NewtonExact", self.iterations)

    def __call__(self, P: Tensor) -> Tensor:
        with torch.no_grad():
            value = newton_schulz(P, self.iterations).root
        exact = sqrtm(P)
        return value + (exact - exact.detach())

    def shares(self, s: Tensor) -> Tensor:
        # With x the root of an eigenvalue over the trace, and y = x * share the value of the iteration.
        x = relative(s)
        share, z = x, torch.ones_like(x)
        for _ in range(self.iterations):
            t = 1.5 - 0.5 * z * x * share
            share, z = share * t, z * t
        return share
