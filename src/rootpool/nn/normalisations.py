"""Roots by matrix products, and the baselines that the paper compares with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rootpool.linalg import Minimax, logm, newton_schulz, powm
from rootpool.linalg.checks import check_range
from rootpool.linalg.parameters import check_at_least, check_positive

from .factors import with_ridge
from .method import Method

BELOW_ZERO = (
    "rounding has left eigenvalues below zero, for which the polynomials grow: compute in float64, or use "
    "isqrt-cov"
)


@dataclass(frozen=True)
class ISqrtCov(Method):
    """Newton-Schulz forward and backward (Li et al. 2018): matrix products only.

    Args:
        iterations: how many; the paper has 5.

    >>> ISqrtCov(15)(torch.diag(torch.tensor([4.0, 1.0]))).round(decimals=4)
    tensor([[2., 0.],
            [0., 1.]])
    """

    name: ClassVar[str] = "isqrt-cov"
    source: ClassVar[str] = "paper"
    use: ClassVar[str] = (
        "to export a network, for the first stage of the hybrid protocol, or to compare with it"
    )

    iterations: int = 5

    def __post_init__(self) -> None:
        check_at_least("ISqrtCov.iterations", self.iterations, 1)

    def __call__(self, P: Tensor) -> Tensor:
        return newton_schulz(P, self.iterations).root


@dataclass(frozen=True)
class MinimaxRoot(Method):
    r"""Minimax polynomials instead of Newton-Schulz: more accurate at the same cost.

    Eigenvalues down to :math:`\mathrm{lower}^2` of the trace have their root to rounding after eight steps,
    which are as many products as eleven iterations of Newton-Schulz; smaller ones converge later. The
    gradient belongs to the iteration. Where rounding leaves eigenvalues below zero, of a millionth of the
    trace in float32, the polynomials may grow beyond all bounds, which is an error.

    Args:
        steps: how many polynomials of degree 5; each costs four matrix products.
        lower: the root of the smallest eigenvalue that counts, over the root of the trace.

    References: Amsel et al., The Polar Express, 2025; Grishina et al., CANS, 2025.

    >>> import torch
    >>> MinimaxRoot()(torch.diag(torch.tensor([1e-4, 4.0], dtype=torch.float64))).diagonal()
    tensor([0.0100, 2.0000], dtype=torch.float64)
    """

    name: ClassVar[str] = "minimax"
    source: ClassVar[str] = "follow-up"
    use: ClassVar[str] = (
        "an accurate root of covariances by products; to export a network, polar is faster"
    )

    steps: int = 8
    lower: float = 1e-3

    def __post_init__(self) -> None:
        # Once, as it takes a while. No field, as it is no parameter; compilers know no cached_property.
        object.__setattr__(self, "_polynomials", Minimax(self.steps, self.lower))

    def __call__(self, P: Tensor) -> Tensor:
        polynomials: Minimax = getattr(self, "_polynomials")  # noqa: B009 - mypy sees fields alone
        root = newton_schulz(P, polynomials).root
        check_range(root, "the iteration", P, item="covariances", advice=BELOW_ZERO)
        return root


@dataclass(frozen=True)
class PlainCovariance(Method):
    """No normalisation."""

    name: ClassVar[str] = "covariance"
    source: ClassVar[str] = "baseline"
    use: ClassVar[str] = "to measure what the root contributes"

    def __call__(self, P: Tensor) -> Tensor:
        return P


@dataclass(frozen=True)
class MatrixLog(Method):
    """Matrix logarithm of ``P + ridge * I`` (DeepO2P, Ionescu et al. 2015)."""

    name: ClassVar[str] = "log"
    source: ClassVar[str] = "baseline"
    use: ClassVar[str] = "to compare with DeepO2P"

    ridge: float = 1e-3

    def __post_init__(self) -> None:
        check_positive("MatrixLog.ridge", self.ridge)

    def __call__(self, P: Tensor) -> Tensor:
        return logm(with_ridge(P, self.ridge))


@dataclass(frozen=True)
class MatrixPower(Method):
    """Matrix power with its exact gradient (MPN-COV with a general power, Li et al. 2017)."""

    name: ClassVar[str] = "power"
    source: ClassVar[str] = "baseline"
    use: ClassVar[str] = "to try an exponent other than one half"

    exponent: float = 0.5

    def __post_init__(self) -> None:
        check_positive("MatrixPower.exponent", self.exponent, "; covariances can be singular")

    def __call__(self, P: Tensor) -> Tensor:
        return powm(P, self.exponent)


@dataclass(frozen=True)
class SignedSqrt(Method):
    r"""Element-wise signed square root (B-CNN, Lin et al. 2015).

    .. math:: Q_{ij} = \mathrm{sign}(P_{ij}) \sqrt{|P_{ij}|}

    Its derivative is infinite at zero entries (dead channels); there it is 0.
    """

    name: ClassVar[str] = "signed-sqrt"
    source: ClassVar[str] = "baseline"
    use: ClassVar[str] = "to compare with B-CNN"

    def __call__(self, P: Tensor) -> Tensor:
        zero = P == 0
        size = torch.where(zero, 1, P).abs().sqrt()
        return torch.where(zero, 0, size * P.sign())
