r"""The value of the Newton-Schulz iteration as a spectral function, with two gradients.

The iteration is a polynomial of :math:`P / \mathrm{tr} P`, so it acts on each eigenvalue alone, and numbers
take the place of matrices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rootpool.linalg import newton_schulz, sqrtm

from .method import check_iterations
from .newton_root import SVDNewton
from .spectral_roots import Exact, relative

__all__ = ["NewtonExact", "NewtonFused"]


def newton_shares(s: Tensor, iterations: int) -> Tensor:
    """The value of the iteration at each eigenvalue over its root ``s``, ``(B, r)``."""
    x = relative(s)  # the root of an eigenvalue over the trace; the value there is x * share
    share, z = x, torch.ones_like(x)
    for _ in range(iterations):
        t = 1.5 - 0.5 * z * x * share
        share, z = share * t, z * t
    return share


@dataclass(frozen=True)
class NewtonExact(Exact):
    r"""Newton-Schulz forward, the gradient of the exact root backward.

    The value is that of :class:`ISqrtCov`. The gradient is the one of :class:`Exact` at the same
    covariance: for an upstream gradient G, that of :math:`\langle G, P^{1/2} \rangle`. It is not the
    derivative of the value. SVD-Newton is the opposite, the exact root with the gradient of the
    iteration; together with the two pure methods they tell which half of Newton-Schulz matters.
    """

    name: ClassVar[str] = "newton-exact"
    source: ClassVar[str] = "ours"
    use: ClassVar[str] = "to tell the value of Newton-Schulz from its gradient; svd-newton reversed"
    twice: ClassVar[bool] = False  # its gradient is not that of its value

    iterations: int = 5

    def __post_init__(self) -> None:
        check_iterations("NewtonExact", self.iterations)

    def __call__(self, P: Tensor) -> Tensor:
        with torch.no_grad():
            value = newton_schulz(P, self.iterations).root
        exact = sqrtm(P)
        return value + (exact - exact.detach())

    def shares(self, s: Tensor) -> Tensor:
        return newton_shares(s, self.iterations)


@dataclass(frozen=True)
class NewtonFused(SVDNewton):
    """Newton-Schulz forward and backward, from the features directly.

    Value and gradient are those of :class:`ISqrtCov` up to rounding. The cost hardly grows with the number
    of iterations, and with few positions it is a fraction of that of products of covariances; unlike
    those, it cannot be exported.
    """

    name: ClassVar[str] = "newton-fused"
    source: ClassVar[str] = "ours"
    use: ClassVar[str] = "the same as isqrt-cov, faster with few positions or many iterations"

    iterations: int = 5

    def __post_init__(self) -> None:
        check_iterations("NewtonFused", self.iterations)

    def floor(self, dtype: torch.dtype) -> float:
        return 0.0

    def __call__(self, P: Tensor) -> Tensor:
        return newton_schulz(P, self.iterations).root

    def shares(self, s: Tensor) -> Tensor:
        return newton_shares(s, self.iterations)
