r"""Spectral roots whose gradient uses a kernel :math:`K_{ij}` in the place of
:math:`1 / (\lambda_i - \lambda_j)`: those of the paper.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
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
from rootpool.linalg.matrix_derivatives import derivative_coefficients
from rootpool.linalg.restricted import Leading
from rootpool.linalg.rules import Rule
from rootpool.linalg.scalar import FUNCTIONS, ScalarFunction

from .method import KernelBound
from .published import pade_coefficients, published_root, sum_of_powers
from .spectral_roots import SpectralRoot, assemble, power_of_two

__all__ = [
    "SVDPI",
    "KernelRoot",
    "MPNCov",
    "SVDPade",
    "SVDTaylor",
    "SVDTopN",
    "SVDTrunc",
]

TIE = "lam_i = lam_j = eps"
BACKWARDS = ("fused", "published")


def _gap_bound(eps: float) -> KernelBound:
    """Eigenvalues are at least eps, where neighbouring numbers differ by eps squared."""
    return KernelBound(
        1 / eps**2, "1 / eps^2", "lam_i and lam_j are eps and the next number above it"
    )


class KernelRoot(SpectralRoot):
    """A root whose gradient uses a kernel of the paper, fused with the root and right at ties.

    Those of the paper have a field ``backward``: ``"fused"``, or ``"published"`` for the equations of the
    paper as its code evaluates them (:mod:`rootpool.nn.published`). That form can diverge, and is only
    here to measure what the paper is about.
    """

    backward = "fused"

    def __post_init__(self) -> None:
        if self.backward not in BACKWARDS:
            raise ValueError(
                f"backward must be one of {', '.join(BACKWARDS)}, got {self.backward!r}"
            )
        _ = self.rule, self.function  # check their parameters

    @property
    def fused(self) -> bool:
        return self.backward == "fused"

    @property
    def fused_value(self) -> bool:
        return self.fused or self.keep is None

    @property
    @abstractmethod
    def rule(self) -> GradientRule:
        """The kernel."""

    def pair_kernel(self, larger: Tensor, smaller: Tensor) -> Tensor:
        """The kernel as published, of the larger and the smaller eigenvalue of each pair."""
        raise NotImplementedError

    @property
    def function(self) -> ScalarFunction:
        """What is differentiated, on eigenvalues that have been raised to the floor."""
        return FUNCTIONS["sqrt"]

    def kernel(self, unit: Tensor) -> Rule:
        """The rule for eigenvalues that are divided by ``unit`` squared, ``(B, 1)``."""
        return self.rule  # a kernel scales like 1 / lam

    def __call__(self, P: Tensor) -> Tensor:
        if not self.fused:
            return published_root(P, self.pair_kernel, self.keep)
        return self._right_at_ties(P)

    def _right_at_ties(self, P: Tensor) -> Tensor:
        return sqrtm(P, rule=self.rule, eigenvalue_floor=self.floor(P.dtype))

    def inner(self, s: Tensor, Z: Tensor) -> tuple[Tensor, Tensor | None]:
        if s.shape[1] == 0:
            return Z, None
        # In a unit near the largest s, a power of two, squares do not overflow nor reciprocals. Kernels
        # scale like 1 / lam and roots like s, so L scales like 1 / s and L Z does not change with the
        # unit. One more eigenvalue, the floor, stands for the whole null space.
        unit = power_of_two(s)
        null = torch.full_like(unit, math.sqrt(self.floor(s.dtype))) / unit
        s, Z = s / unit, Z / unit.unsqueeze(-1)
        spectrum = torch.cat([null, s], 1).square()
        L = derivative_coefficients(self.function, self.kernel(unit), spectrum)
        return assemble(L[:, 1:, 1:], L[:, 1:, 0], s, Z)


@dataclass(frozen=True)
class MPNCov(KernelRoot):
    """The ordinary gradient of the eigendecomposition (Li et al. 2017)."""

    name: ClassVar[str] = "mpn-cov"
    source: ClassVar[str] = "paper"
    use: ClassVar[str] = "to compare with MPN-COV; near ties its gradient has no bound"

    backward: str = "fused"

    @property
    def rule(self) -> GradientRule:
        return Ordinary()

    def pair_kernel(self, larger: Tensor, smaller: Tensor) -> Tensor:
        return 1 / (larger - smaller)

    def kernel_bound(self, dtype: torch.dtype = torch.float64) -> KernelBound:
        return _gap_bound(torch.finfo(dtype).eps)


@dataclass(frozen=True)
class SVDTrunc(KernelRoot):
    """The kernel clipped to ``[-bound, bound]``."""

    name: ClassVar[str] = "svd-trunc"
    source: ClassVar[str] = "paper"
    use: ClassVar[str] = (
        "to compare with the paper; the bound is absolute, so the scale of the features matters"
    )

    bound: float = 1e10
    backward: str = "fused"

    @property
    def rule(self) -> GradientRule:
        return Truncated(self.bound)

    def pair_kernel(self, larger: Tensor, smaller: Tensor) -> Tensor:
        return (1 / (larger - smaller)).clamp(-self.bound, self.bound)

    def kernel(self, unit: Tensor) -> Rule:
        # The bound is an absolute number. Where it overflows, nothing is clipped.
        bound = (self.bound * unit.square()).unsqueeze(-1)
        return lambda lam: Ordinary()(lam).clamp(-bound, bound)

    def kernel_bound(self, dtype: torch.dtype = torch.float64) -> KernelBound:
        return KernelBound(self.bound, "T", "|lam_i - lam_j| <= 1 / T")


@dataclass(frozen=True)
class SVDPI(KernelRoot):
    """The gradient of power iteration (Wang et al. 2019)."""

    name: ClassVar[str] = "svd-pi"
    source: ClassVar[str] = "paper"
    use: ClassVar[str] = "to compare with power iteration"

    iterations: int = 20
    backward: str = "fused"

    @property
    def rule(self) -> GradientRule:
        return PowerIteration(self.iterations)

    def pair_kernel(self, larger: Tensor, smaller: Tensor) -> Tensor:
        return sum_of_powers((1.0,) * self.iterations, smaller / larger) / larger

    def kernel_bound(self, dtype: torch.dtype = torch.float64) -> KernelBound:
        return KernelBound(self.iterations / torch.finfo(dtype).eps, "K / eps", TIE)


@dataclass(frozen=True)
class SVDTaylor(KernelRoot):
    """The Taylor polynomial of the kernel (Wang et al. 2019)."""

    name: ClassVar[str] = "svd-taylor"
    source: ClassVar[str] = "paper"
    use: ClassVar[str] = "to compare with the paper"

    degree: int = 100
    backward: str = "fused"

    @property
    def rule(self) -> GradientRule:
        return Taylor(self.degree)

    def pair_kernel(self, larger: Tensor, smaller: Tensor) -> Tensor:
        return sum_of_powers((1.0,) * (self.degree + 1), smaller / larger) / larger

    def kernel_bound(self, dtype: torch.dtype = torch.float64) -> KernelBound:
        return KernelBound((self.degree + 1) / torch.finfo(dtype).eps, "(K + 1) / eps", TIE)


@dataclass(frozen=True)
class SVDPade(KernelRoot):
    """The paper's proposal: diagonal Padé approximants of the kernel."""

    name: ClassVar[str] = "svd-pade"
    source: ClassVar[str] = "paper"
    use: ClassVar[str] = "to reproduce the paper, which finds it best, with the hybrid protocol"

    degree: int = 100
    backward: str = "fused"

    @property
    def rule(self) -> GradientRule:
        return Pade(self.degree)

    def pair_kernel(self, larger: Tensor, smaller: Tensor) -> Tensor:
        p, q = pade_coefficients(self.degree)
        x = smaller / larger
        return sum_of_powers(p, x) / sum_of_powers(q, x) / larger

    def kernel_bound(self, dtype: torch.dtype = torch.float64) -> KernelBound:
        eps = torch.finfo(dtype).eps
        tie = KernelBound((self.degree + 1) / eps, "(K + 1) / eps", TIE)
        return max(_gap_bound(eps), tie, key=lambda bound: bound.value)


@dataclass(frozen=True)
class SVDTopN(KernelRoot):
    """The ``count`` largest eigenvalues, and the gradient of just that function."""

    name: ClassVar[str] = "svd-topn"
    source: ClassVar[str] = "paper"
    use: ClassVar[str] = "to compare with the paper, or for a root of low rank"

    count: int = 200
    backward: str = "fused"

    @property
    def rule(self) -> GradientRule:
        return Ordinary()

    def pair_kernel(self, larger: Tensor, smaller: Tensor) -> Tensor:
        return 1 / (larger - smaller)

    @property
    def keep(self) -> int | None:
        return self.count

    def floor(self, dtype: torch.dtype) -> float:
        return 0.0

    @property
    def function(self) -> ScalarFunction:
        return Leading(FUNCTIONS["sqrt"], self.count)

    def _right_at_ties(self, P: Tensor) -> Tensor:
        return sqrtm(P, rule=self.rule, keep_largest=self.count)

    def kernel_bound(self, dtype: torch.dtype = torch.float64) -> KernelBound:
        return _gap_bound(torch.finfo(dtype).eps)
