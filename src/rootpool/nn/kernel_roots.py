r"""Spectral roots whose gradient uses a kernel :math:`K_{ij}` instead of
:math:`1 / (\lambda_i - \lambda_j)`: the methods of the paper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import ClassVar

import torch
from torch import Tensor

from rootpool.linalg import (
    GradientRule,
    Ordinary,
    Pade,
    PowerIteration,
    Taylor,
    Truncated,
    sqrtm,
)
from rootpool.linalg.restricted import Leading
from rootpool.linalg.rules import Rule
from rootpool.linalg.scalar import FUNCTIONS, ScalarFunction
from rootpool.linalg.solvers import power_of_two

from .spectral_roots import SpectralRoot, assemble


class KernelRoot(SpectralRoot):
    """A root whose gradient uses a kernel of the paper, fused with the root and right at ties.

    The same kernels with the paper's own equations are in :mod:`rootpool.nn.published`.
    """

    def __post_init__(self) -> None:
        _ = self.rule, self.function  # check their parameters

    of: ClassVar[type[GradientRule]]

    @property
    def rule(self) -> GradientRule:
        """The kernel: by default a rule ``of`` that class, with the parameters of the root."""
        return self.of(*(getattr(self, field.name) for field in fields(self)))

    @property
    def function(self) -> ScalarFunction:
        """What is differentiated, on eigenvalues that have been raised to the floor."""
        return FUNCTIONS["sqrt"]

    def kernel(self, unit: Tensor) -> Rule:
        """The rule for eigenvalues that are divided by ``unit`` squared, ``(B, 1)``."""
        return self.rule  # a kernel scales like 1 / lam

    def __call__(self, P: Tensor) -> Tensor:
        return sqrtm(P, rule=self.rule, eigenvalue_floor=self.floor(P.dtype))

    def feature_gradient(self, s: Tensor, Z: Tensor) -> tuple[Tensor, Tensor | None]:
        if s.shape[1] == 0:
            return Z, None
        # In a unit near the largest s, a power of two, squares do not overflow nor reciprocals. Kernels
        # scale like 1 / lam and roots like s, so L scales like 1 / s and L Z does not change with the
        # unit. One more eigenvalue, the floor, stands for the whole null space.
        unit = power_of_two(s[:, -1:])
        null = torch.full_like(unit, math.sqrt(self.floor(s.dtype))) / unit
        s, Z = s / unit, Z / unit.unsqueeze(-1)
        spectrum = torch.cat([null, s], 1).square()
        L = self.function.coefficients(spectrum, self.kernel(unit))
        return assemble(L[:, 1:, 1:], L[:, 1:, 0], s, Z)


@dataclass(frozen=True)
class MPNCov(KernelRoot):
    """The ordinary gradient of the eigendecomposition (Li et al. 2017)."""

    name: ClassVar[str] = "mpn-cov"
    source: ClassVar[str] = "paper"
    of: ClassVar[type[GradientRule]] = Ordinary
    use: ClassVar[str] = "to compare with MPN-COV; near ties its gradient has no bound"


@dataclass(frozen=True)
class SVDTrunc(KernelRoot):
    """The kernel clipped to ``[-bound, bound]``."""

    name: ClassVar[str] = "svd-trunc"
    source: ClassVar[str] = "paper"
    of: ClassVar[type[GradientRule]] = Truncated
    use: ClassVar[str] = (
        "to compare with the paper; the bound is absolute, so the scale of the features matters"
    )

    bound: float = 1e10

    def kernel(self, unit: Tensor) -> Rule:
        # The bound is an absolute number. Where it overflows, nothing is clipped.
        bound = (self.bound * unit.square()).unsqueeze(-1)
        return lambda lam: Ordinary()(lam).clamp(-bound, bound)


@dataclass(frozen=True)
class SVDPI(KernelRoot):
    """The gradient of power iteration (Wang et al. 2019)."""

    name: ClassVar[str] = "svd-pi"
    source: ClassVar[str] = "paper"
    of: ClassVar[type[GradientRule]] = PowerIteration
    use: ClassVar[str] = "to compare with power iteration"

    iterations: int = 20


@dataclass(frozen=True)
class SVDTaylor(KernelRoot):
    """The Taylor polynomial of the kernel (Wang et al. 2019)."""

    name: ClassVar[str] = "svd-taylor"
    source: ClassVar[str] = "paper"
    of: ClassVar[type[GradientRule]] = Taylor
    use: ClassVar[str] = "to compare with the paper"

    degree: int = 100


@dataclass(frozen=True)
class SVDPade(KernelRoot):
    """The paper's proposal: diagonal Padé approximants of the kernel."""

    name: ClassVar[str] = "svd-pade"
    source: ClassVar[str] = "paper"
    of: ClassVar[type[GradientRule]] = Pade
    use: ClassVar[str] = "to reproduce the paper, which finds it best, with the hybrid protocol"

    degree: int = 100


@dataclass(frozen=True)
class SVDTopN(KernelRoot):
    """The ``count`` largest eigenvalues, and the gradient of just that function."""

    name: ClassVar[str] = "svd-topn"
    source: ClassVar[str] = "paper"
    use: ClassVar[str] = "to compare with the paper, or for a root of low rank"

    count: int = 200

    @property
    def rule(self) -> GradientRule:
        return Ordinary()

    def weights(self, s: Tensor) -> Tensor:
        weights = s.sign()
        weights[:, : max(0, s.shape[1] - self.count)] = 0
        return weights

    def floor(self, dtype: torch.dtype) -> float:
        return 0.0

    @property
    def function(self) -> ScalarFunction:
        return Leading(FUNCTIONS["sqrt"], self.count)

    def __call__(self, P: Tensor) -> Tensor:
        return sqrtm(P, rule=self.rule, keep_largest=self.count)
