r"""Brownian distance covariance of the channels (DeepBDC): distances between channels, centred twice.

A function of the *second moment* :math:`M = X X^T / N`, because the distance of two channels is

.. math:: \tfrac1N |x_i - x_j|^2 = M_{ii} + M_{jj} - 2 M_{ij} .

Centring twice removes every constant. So :math:`\sqrt{q + \epsilon} - \sqrt\epsilon`, which is
:math:`q / (\sqrt{q + \epsilon} + \sqrt\epsilon)`, may stand for :math:`\sqrt{q + \epsilon}`, and small
distances do not drown in :math:`\sqrt\epsilon`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from rootpool.linalg.parameters import check_positive

from .method import Method

__all__ = ["BrownianDistance"]


@dataclass(frozen=True)
class BrownianDistance(Method):
    r"""Distances between channels, centred twice, instead of covariances (DeepBDC, Xie et al. 2022).

    .. math:: D_{ij} = \sqrt{ \tau\, \tfrac1N |x_i - x_j|^2 + \epsilon }, \qquad
        Q = H D H, \quad H = I - \tfrac1d 1 1^T .

    The mean of the features counts: the pooling gives it second moments. The paper's t is
    :math:`\log(\tau / N)`.

    Args:
        temperature: :math:`\tau`; where learning starts. One half is the paper's.
        eps: bounds the gradient where two channels are equal: the derivative of a distance by its square is
            at most :math:`\tau / (2 \sqrt\epsilon)`. It is absolute, whatever the scale of the features.
        trained: whether the temperature is learned, as in the paper. The parameter is its logarithm.

    Reference: Xie et al., Joint distribution matters: deep Brownian distance covariance for few-shot
    classification, CVPR 2022.

    >>> import torch
    >>> second_moment = torch.diag(torch.tensor([9.0, 7.0]))  # the distance of the channels is 4
    >>> BrownianDistance(temperature=1.0, eps=1e-12)(second_moment)
    tensor([[-2.0000,  2.0000],
            [ 2.0000, -2.0000]])
    """

    name: ClassVar[str] = "brownian"
    source: ClassVar[str] = "follow-up"
    use: ClassVar[str] = "to compare images of unseen classes, as in few-shot classification"
    centred: ClassVar[bool] = False
    symmetry: ClassVar[str] = "permutations"

    temperature: float = 0.5
    eps: float = 1e-5
    trained: bool = True

    def __post_init__(self) -> None:
        check_positive("BrownianDistance.temperature", self.temperature)
        check_positive("BrownianDistance.eps", self.eps)

    def initial_parameters(self) -> tuple[float, ...]:
        return (math.log(self.temperature),) if self.trained else ()

    def readable(self, parameters: Tensor) -> dict[str, float]:
        return {"temperature": float(parameters.detach().exp())}

    def at(self, parameters: Tensor) -> Method:
        return _At(parameters.exp(), self.eps) if self.trained else self

    def __call__(self, P: Tensor) -> Tensor:
        return _brownian(P, self.temperature, self.eps)


@dataclass(frozen=True, eq=False)
class _At(Method):
    """With a temperature that is a tensor ``(1,)``."""

    temperature: Tensor
    eps: float

    def __call__(self, P: Tensor) -> Tensor:
        return _brownian(P, self.temperature, self.eps)


def _brownian(M: Tensor, temperature: float | Tensor, eps: float) -> Tensor:
    power = M.diagonal(dim1=-2, dim2=-1)
    distance = (power.unsqueeze(-1) + power.unsqueeze(-2) - 2 * M).clamp_min(
        0
    )  # negative: rounding
    scaled = temperature * distance
    D = scaled / ((scaled + eps).sqrt() + math.sqrt(eps))
    rows = D - D.mean(-1, keepdim=True)
    return rows - rows.mean(-2, keepdim=True)
