"""Methods and poolings that only a study needs; importing this module registers them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from timm.layers import SimPool1d
from torch import Tensor, nn

from rootpool.linalg import newton_schulz, sqrtm
from rootpool.nn import POOLS, AveragePool, Method, register, resolve_method

__all__ = ["AttentiveProbe", "NewtonExact", "Scaled", "SimPool"]


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


class SimPool(AveragePool):
    """Attention whose query is the average of the positions, by timm, with the power of its authors for CNNs.

    Psomas et al., "Keep It SimPool", ICCV 2023.
    """

    name = "simpool"

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.attention = SimPool1d(self.channels, gamma=2.0)

    def pool(self, features: Tensor, weights: Tensor | None = None) -> Tensor:
        """The positions where the features are like their average."""
        pooled: Tensor = self.attention(features.flatten(2).mT)
        return pooled


class AttentiveProbe(AveragePool):
    """Attention with learned queries, each of which pools its own share of the channels.

    Psomas et al., "Attention, Please!", 2025 (Efficient Probing): the keys are the features as they are, and
    the values a linear map of them; here they are reduced like those of every other pooling.
    """

    name = "attentive-probe"
    queries: ClassVar[int] = 32

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.query = nn.Parameter(0.02 * torch.randn(self.queries, self.in_channels))

    def forward(self, features: Tensor, weights: Tensor | None = None) -> Tensor:
        """The positions that each query asks for."""
        keys = features.flatten(2) / self.in_channels**0.5
        attention = (self.query @ keys).softmax(-1).unsqueeze(-1)
        values = self.reduction(features).flatten(2).unflatten(1, (self.queries, -1))
        pooled = (values @ attention).flatten(1)
        return pooled if self.scaling is None else self.scaling(pooled)


POOLS |= {pool.name: pool for pool in (SimPool, AttentiveProbe)}
