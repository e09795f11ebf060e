"""Methods that only a study needs, as plain registered methods; importing this module registers them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rootpool.linalg import newton_schulz, sqrtm
from rootpool.nn import Method, register, resolve_method

__all__ = ["NewtonExact", "Scaled"]


@register
@dataclass(frozen=True)
class NewtonExact(Method):
    """Newton-Schulz forward, the gradient of the exact root backward: SVD-Newton reversed.

    Together with ``exact``, ``isqrt-cov`` and ``svd-newton`` it tells which half of Newton-Schulz matters.
    """

    name: ClassVar[str] = "newton-exact"
    source: ClassVar[str] = "ours"
    use: ClassVar[str] = "ablation: approximate forward pass, exact gradient"

    iterations: int = 5

    def __call__(self, P: Tensor) -> Tensor:
        with torch.no_grad():
            value = newton_schulz(P, self.iterations).root
        exact = sqrtm(P)
        return value + (exact - exact.detach())


@register
@dataclass(frozen=True)
class Scaled(Method):
    r"""A method of features multiplied by :math:`c = 2^k`, and its root divided by c.

    .. math:: P \mapsto \tfrac1c\, \mathrm{method}(c^2 P)

    The square root and its exact gradient do not change, and multiplying by a power of two does not round:
    only what a method compares with an absolute number, such as a floor of eps, is different.

    Args:
        of: the name of the method.
        k: the power of two that features are multiplied by.
    """

    name: ClassVar[str] = "scaled"
    source: ClassVar[str] = "ours"
    use: ClassVar[str] = "to tell what a method does at another scale of the features"

    of: str = "mpn-cov-published"
    k: int = 0

    def covariance(self, features: Tensor) -> Tensor:
        """As the method has it, of the scaled features."""
        return resolve_method(self.of).covariance(2.0**self.k * features) / 4.0**self.k

    def __call__(self, P: Tensor) -> Tensor:
        return resolve_method(self.of)(4.0**self.k * P) / 2.0**self.k
