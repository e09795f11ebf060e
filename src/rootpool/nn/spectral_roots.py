r"""Roots by eigendecomposition: one value, many gradients.

They also know the gradient of the root with respect to the *features* of a covariance, which
:mod:`rootpool.nn.root` runs for whole batches.

With :math:`A = (X - \bar X)/\sqrt N = U\,\mathrm{diag}(s) V^T`, :math:`P = A A^T` and
:math:`\lambda = s^2`, the gradient of :math:`Q = P^{1/2}` with coefficients :math:`L_{ij}` between two
eigenvalues and :math:`l_i` between an eigenvalue and the null space is, for :math:`2S = G + G^T`,

.. math::
    \frac{\partial l}{\partial A} = \left[ U (L \circ M) + (I - U U^T)\, 2 S U \,\mathrm{diag}(l)
    \right] \mathrm{diag}(s) V^T, \qquad M = U^T (2 S) U .

In terms of :math:`W = U \mathrm{diag}(\sqrt s)`, for which :math:`Q = W W^T`, and
:math:`Z = W^T (2S) W`:

.. math::
    \frac{\partial l}{\partial A} = \left[ 2 S W \mathrm{diag}(l s) + W \left( (L_{ij} - l_j)
    \tfrac{s_j}{s_i} Z_{ij} \right) \right] \mathrm{diag}(s^{-1/2}) V^T .

For the exact gradient :math:`L_{ij} = 1/(s_i + s_j)` and :math:`l_i = 1/s_i`, which leaves
:math:`2SW - W(Z_{ij}/(s_i + s_j))`: no gap and no singularity.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from rootpool.linalg import (
    GradientRule,
    Ordinary,
    Pade,
    PowerIteration,
    Taylor,
    Truncated,
    newton_schulz,
    sqrtm,
)
from rootpool.linalg.functions import derivative_coefficients
from rootpool.linalg.restricted import Leading
from rootpool.linalg.rules import Rule
from rootpool.linalg.scalar import FUNCTIONS, ScalarFunction

from .method import Method, check_iterations

__all__ = [
    "SVDPI",
    "Exact",
    "MPNCov",
    "SVDNewton",
    "SVDPade",
    "SVDTaylor",
    "SVDTopN",
    "SVDTrunc",
    "SpectralRoot",
]


class SpectralRoot(Method):
    """The square root by eigendecomposition; subclasses differ in the gradient."""

    def floor(self, dtype: torch.dtype) -> float:
        """Eigenvalues below are raised to this: ``eps``, as in the paper."""
        return torch.finfo(dtype).eps

    def gradient_floor(self, dtype: torch.dtype) -> float:
        """Eigenvalues up to this get no gradient: the floor, whose derivative is zero."""
        return self.floor(dtype)

    @property
    def keep(self) -> int | None:
        """How many of the largest eigenvalues to keep; None: all."""
        return None

    @abstractmethod
    def inner(self, s: Tensor, Z: Tensor) -> tuple[Tensor, Tensor | None]:
        r"""The matrix between W and :math:`s^{-1/2} V^T`, and the column scale of 2SW (None: ones).

        Args:
            s: roots of the eigenvalues of the covariances, ascending, ``(B, r)``; dropped ones are 0.
            Z: :math:`W^T (2S) W`, ``(B, r, r)``.
        """


class _KernelRoot(SpectralRoot):
    """A root whose gradient uses a kernel of the paper, fused with the root and right at ties."""

    @property
    @abstractmethod
    def rule(self) -> GradientRule:
        """The kernel."""

    @property
    def function(self) -> ScalarFunction:
        """What is differentiated, on eigenvalues that have been raised to the floor."""
        return FUNCTIONS["sqrt"]

    def kernel(self, unit: Tensor) -> Rule:
        """The rule for eigenvalues that are divided by ``unit`` squared, ``(B, 1)``."""
        return self.rule  # a kernel scales like 1 / lam

    def __call__(self, P: Tensor) -> Tensor:
        return sqrtm(P, rule=self.rule, eigenvalue_floor=self.floor(P.dtype))

    def inner(self, s: Tensor, Z: Tensor) -> tuple[Tensor, Tensor | None]:
        if s.shape[1] == 0:
            return Z, None
        # In a unit near the largest s, a power of two, squares do not overflow nor reciprocals. Kernels
        # scale like 1 / lam and roots like s, so L scales like 1 / s and L Z does not change with the
        # unit. One more eigenvalue, the floor, stands for the whole null space.
        unit = _unit(s)
        null = torch.full_like(unit, math.sqrt(self.floor(s.dtype))) / unit
        s, Z = s / unit, Z / unit.unsqueeze(-1)
        spectrum = torch.cat([null, s], 1).square()
        L = derivative_coefficients(self.function, self.kernel(unit), spectrum)
        return _inner(L[:, 1:, 1:], L[:, 1:, 0], s, Z)


def _unit(s: Tensor) -> Tensor:
    """A power of two near the largest ``s``, ``(B, 1)``."""
    return torch.ldexp(torch.ones_like(s[:, -1:]), torch.frexp(s[:, -1:]).exponent)


def _inner(L: Tensor, null: Tensor, s: Tensor, Z: Tensor) -> tuple[Tensor, Tensor]:
    """``(L_ij - l_j) s_j / s_i Z_ij`` and ``l_j s_j``; rows and columns of zeros stay zero."""
    s = torch.where(s == 0, 1, s)
    return (L - null.unsqueeze(-2)) * (s.unsqueeze(-2) / s.unsqueeze(-1)) * Z, null * s


@dataclass(frozen=True)
class Exact(SpectralRoot):
    """Our method: the exact gradient, whose coefficients lie in [0, 1]. Nothing to choose.

    Take it: by default, and wherever none of the others is asked for.
    """

    def floor(self, dtype: torch.dtype) -> float:
        return 0.0

    def __call__(self, P: Tensor) -> Tensor:
        return sqrtm(P)

    def inner(self, s: Tensor, Z: Tensor) -> tuple[Tensor, Tensor | None]:
        sums = s.unsqueeze(-1) + s.unsqueeze(-2)
        return Z / -torch.where(sums == 0, 1, sums), None


@dataclass(frozen=True)
class MPNCov(_KernelRoot):
    """The ordinary gradient of the eigendecomposition (Li et al. 2017).

    Take it: to compare with MPN-COV; near ties its gradient has no bound.
    """

    @property
    def rule(self) -> GradientRule:
        return Ordinary()


@dataclass(frozen=True)
class SVDTrunc(_KernelRoot):
    """The kernel clipped to ``[-bound, bound]``.

    Take it: to compare with the paper; the bound is absolute, so the scale of the features matters.
    """

    bound: float = 1e10

    def __post_init__(self) -> None:
        Truncated(self.bound)

    @property
    def rule(self) -> GradientRule:
        return Truncated(self.bound)

    def kernel(self, unit: Tensor) -> Rule:
        # The bound is an absolute number. Where it overflows, nothing is clipped.
        bound = (self.bound * unit.square()).unsqueeze(-1)
        return lambda lam: Ordinary()(lam).clamp(-bound, bound)


@dataclass(frozen=True)
class SVDPI(_KernelRoot):
    """The gradient of power iteration (Wang et al. 2019).

    Take it: to compare with power iteration.
    """

    iterations: int = 20

    def __post_init__(self) -> None:
        PowerIteration(self.iterations)

    @property
    def rule(self) -> GradientRule:
        return PowerIteration(self.iterations)


@dataclass(frozen=True)
class SVDTaylor(_KernelRoot):
    """The Taylor polynomial of the kernel (Wang et al. 2019).

    Take it: to compare with the paper.
    """

    degree: int = 100

    def __post_init__(self) -> None:
        Taylor(self.degree)

    @property
    def rule(self) -> GradientRule:
        return Taylor(self.degree)


@dataclass(frozen=True)
class SVDPade(_KernelRoot):
    """The paper's proposal: diagonal Padé approximants of the kernel.

    Take it: to reproduce the paper, which finds it best, with the hybrid protocol.
    """

    degree: int = 100

    def __post_init__(self) -> None:
        Pade(self.degree)

    @property
    def rule(self) -> GradientRule:
        return Pade(self.degree)


@dataclass(frozen=True)
class SVDTopN(_KernelRoot):
    """The ``count`` largest eigenvalues, and the gradient of just that function.

    Take it: to compare with the paper, or for a root of low rank.
    """

    count: int = 200

    def __post_init__(self) -> None:
        Leading(FUNCTIONS["sqrt"], self.count)

    @property
    def rule(self) -> GradientRule:
        return Ordinary()

    @property
    def keep(self) -> int | None:
        return self.count

    def floor(self, dtype: torch.dtype) -> float:
        return 0.0

    @property
    def function(self) -> ScalarFunction:
        return Leading(FUNCTIONS["sqrt"], self.count)

    def __call__(self, P: Tensor) -> Tensor:
        return sqrtm(P, rule=self.rule, keep_largest=self.count)


@dataclass(frozen=True)
class SVDNewton(SpectralRoot):
    r"""The exact root forward, the gradient of Newton-Schulz backward.

    The iteration is a polynomial :math:`y_k` of :math:`P / \tau`, :math:`\tau = \mathrm{tr} P`, so its
    gradient is that of a matrix function: the divided differences of :math:`y_k` follow the recursion
    of the iteration by the product rule :math:`(fg)[a, b] = f(a) g[a, b] + f[a, b] g(b)`, on numbers
    instead of matrices. The normalisation by the trace adds a multiple of A.

    Take it: to compare with the paper.
    """

    iterations: int = 10

    def __post_init__(self) -> None:
        check_iterations("SVDNewton", self.iterations)

    def gradient_floor(self, dtype: torch.dtype) -> float:
        return 0.0  # the iteration knows no floor

    def __call__(self, P: Tensor) -> Tensor:
        approximation = newton_schulz(P, self.iterations).root
        with torch.no_grad():
            exact = sqrtm(P, eigenvalue_floor=self.floor(P.dtype))
        return approximation + (exact - approximation).detach()

    def inner(self, s: Tensor, Z: Tensor) -> tuple[Tensor, Tensor | None]:
        if s.shape[1] == 0:
            return Z, None
        unit = _unit(s)  # nothing below changes with the unit of s and Z
        s, Z = s / unit, Z / unit.unsqueeze(-1)
        root_trace = torch.linalg.vector_norm(s, dim=-1, keepdim=True)
        root_trace = torch.where(root_trace == 0, 1, root_trace)
        a = (s / root_trace).square()  # eigenvalues over their sum, the trace
        y, z = a, torch.ones_like(a)
        y_ij = torch.ones_like(Z)  # y[a_i, a_j]
        z_ij = torch.zeros_like(Z)
        for _ in range(self.iterations):
            t = 1.5 - 0.5 * z * y
            t_ij = (z.unsqueeze(-1) * y_ij + z_ij * y.unsqueeze(-2)).mul_(-0.5)
            y_ij = y_ij.mul_(t.unsqueeze(-2)).addcmul_(y.unsqueeze(-1), t_ij)
            z_ij = z_ij.mul_(t.unsqueeze(-1)).addcmul_(z.unsqueeze(-2), t_ij)
            y, z = y * t, z * t
        null = y / torch.where(a == 0, 1, a) / root_trace
        inner, columns = _inner(y_ij / root_trace.unsqueeze(-1), null, s, Z)
        # d(sqrt(tau) y(P / tau)) / d(tau), on the diagonal
        slope = y_ij.diagonal(dim1=-2, dim2=-1)
        weight = (y / 2 - slope * a) / torch.where(s == 0, 1, s)
        by_trace = (Z.diagonal(dim1=-2, dim2=-1) / root_trace * weight).sum(-1, keepdim=True)
        inner.diagonal(dim1=-2, dim2=-1).add_(by_trace * s)
        return inner, columns
