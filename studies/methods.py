r"""Methods that only a study needs, as plain registered methods; importing this module registers them.

Learned filters replace the square root by a function h of the eigenvalues whose shape is trained. With
:math:`A = P / \mathrm{tr} P` the result is :math:`\sqrt{\mathrm{tr} P}\, h(A) / \|h(A)\|_F`, with the norm
of the square root.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from rootpool.linalg import newton_schulz, powm, sqrtm
from rootpool.nn import Method, register

__all__ = ["LearnedMixture", "LearnedPower", "NewtonExact", "learned_values"]


class _Filter(nn.Module):
    """A filter h of covariances over their trace, scaled to the norm of the square root."""

    def __init__(self, parameters: list[float]) -> None:
        super().__init__()
        self.logs = nn.Parameter(torch.tensor(parameters))

    def h(self, A: Tensor, logs: Tensor) -> Tensor:
        raise NotImplementedError

    def readable(self) -> dict[str, float]:
        raise NotImplementedError

    def forward(self, P: Tensor) -> Tensor:
        trace = P.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
        trace = torch.where(trace == 0, 1, trace)
        F = self.h(P / trace, self.logs.to(P.dtype))
        norm = torch.linalg.matrix_norm(F, keepdim=True)
        return F * (trace.sqrt() / torch.where(norm == 0, 1, norm))


def learned_values(module: nn.Module) -> dict[str, float]:
    """What the filters of a network have learned, by name: exponents and weights."""
    filters = (part for part in module.modules() if isinstance(part, _Filter))
    return {name: value for part in filters for name, value in part.readable().items()}


class _Power(_Filter):
    def h(self, A: Tensor, logs: Tensor) -> Tensor:
        return powm(A, logs[0].exp())

    def readable(self) -> dict[str, float]:
        return {"exponent": float(self.logs.detach()[0].exp())}


@register
@dataclass(frozen=True)
class LearnedPower(Method):
    r"""A power whose exponent is learned, :math:`h(A) = A^p`; its parameter is :math:`\log p`.

    Args:
        exponent: where learning starts.
        trained: False keeps the exponent, to compare exponents by the shape of the spectrum.
    """

    name: ClassVar[str] = "learned-power"
    source: ClassVar[str] = "ours"
    use: ClassVar[str] = "to learn the exponent with the network"

    exponent: float = 0.5
    trained: bool = True

    def __call__(self, P: Tensor) -> Tensor:
        return self.build()(P)

    def build(self) -> nn.Module:
        return _Power([math.log(self.exponent)]).requires_grad_(self.trained)


DECADES = tuple(range(-8, 2))


class _Mixture(_Filter):
    def h(self, A: Tensor, logs: Tensor) -> Tensor:
        identity = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)
        weights = logs.exp()
        corners = [torch.linalg.solve(A + 10.0**k * identity, A) for k in DECADES]
        return sum(w * term for w, term in zip(weights, [*corners, A], strict=True))

    def readable(self) -> dict[str, float]:
        names = [*(f"weight_1e{k:+d}" for k in DECADES), "weight_linear"]
        return dict(zip(names, self.logs.detach().exp().tolist(), strict=True))


@register
@dataclass(frozen=True)
class LearnedMixture(Method):
    r"""A mixture of saturating filters whose weights are learned.

    .. math:: h(A) = \sum_k w_k A (A + c_k I)^{-1} + w_\infty A, \qquad w_k > 0,

    with corners :math:`c_k` of :math:`10^{-8}, 10^{-7}, \dots, 10`. Every operator monotone function that
    vanishes at 0 is such a mixture (Löwner). Learning starts from the weights of the square root.
    """

    name: ClassVar[str] = "learned-mixture"
    source: ClassVar[str] = "ours"
    use: ClassVar[str] = "to learn the shape of the filter with the network"

    exponent: float = 0.5

    def __call__(self, P: Tensor) -> Tensor:
        return self.build()(P)

    def build(self) -> nn.Module:
        # The trapezoidal rule for the integral of c^(p-1) a / (a + c) over log c, which is
        # a^p pi / sin(pi p); corners beyond the last are large against a, so their terms are linear.
        p = self.exponent
        step = math.log(10) * math.sin(math.pi * p) / math.pi
        beyond = 10.0 ** ((p - 1) * (DECADES[-1] + 1)) / (1 - 10.0 ** (p - 1))
        logs = [math.log(step) + p * k * math.log(10) for k in DECADES]
        return _Mixture([*logs, math.log(step * beyond)])


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
