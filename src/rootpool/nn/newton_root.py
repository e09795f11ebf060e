"""Newton-Schulz as a function of eigenvalues: its gradient for the exact root, and the iteration itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rootpool.linalg import newton_schulz, sqrtm
from rootpool.linalg.parameters import check_at_least

from .spectral_roots import SpectralRoot, assemble, root_trace


@dataclass(frozen=True)
class SVDNewton(SpectralRoot):
    r"""The exact root forward, the gradient of Newton-Schulz backward.

    The iteration is a polynomial :math:`y_k` of :math:`P / \tau`, :math:`\tau = \mathrm{tr} P`, so its
    gradient is that of a matrix function: the divided differences of :math:`y_k` follow the recursion
    of the iteration by the product rule :math:`(fg)[a, b] = f(a) g[a, b] + f[a, b] g(b)`, on numbers
    instead of matrices. The normalisation by the trace adds a multiple of A.
    """

    name: ClassVar[str] = "svd-newton"
    source: ClassVar[str] = "paper"
    use: ClassVar[str] = "to compare with the paper"

    iterations: int = 10

    def __post_init__(self) -> None:
        check_at_least(f"{type(self).__name__}.iterations", self.iterations, 1)

    def gradient_floor(self, dtype: torch.dtype) -> float:
        return 0.0  # the iteration knows no floor

    def __call__(self, P: Tensor) -> Tensor:
        approximation = newton_schulz(P, self.iterations).root
        with torch.no_grad():
            exact = sqrtm(P, eigenvalue_floor=self.floor(P.dtype))
        return approximation + (exact - approximation).detach()

    def feature_gradient(self, s: Tensor, Z: Tensor) -> tuple[Tensor, Tensor | None]:
        unit = root_trace(s)  # the result does not change with the unit of s and Z
        s, Z = s / unit, Z / unit.unsqueeze(-1)
        a = s.square()  # eigenvalues over their sum, the trace
        y, z = a, torch.ones_like(a)
        y_ij = torch.ones_like(Z)  # y[a_i, a_j]
        z_ij = torch.zeros_like(Z)
        for _ in range(self.iterations):
            t = 1.5 - 0.5 * z * y
            t_ij = (z.unsqueeze(-1) * y_ij + z_ij * y.unsqueeze(-2)).mul_(-0.5)
            y_ij = y_ij.mul_(t.unsqueeze(-2)).addcmul_(y.unsqueeze(-1), t_ij)
            z_ij = z_ij.mul_(t.unsqueeze(-1)).addcmul_(z.unsqueeze(-2), t_ij)
            y, z = y * t, z * t
        null = y / torch.where(a == 0, 1, a)
        inner, columns = assemble(y_ij, null, s, Z)
        # d(sqrt(tau) y(P / tau)) / d(tau), on the diagonal
        slope = y_ij.diagonal(dim1=-2, dim2=-1)
        weight = (y / 2 - slope * a) / torch.where(s == 0, 1, s)
        by_trace = (Z.diagonal(dim1=-2, dim2=-1) * weight).sum(-1, keepdim=True)
        inner.diagonal(dim1=-2, dim2=-1).add_(by_trace * s)
        return inner, columns


@dataclass(frozen=True)
class NewtonFused(SVDNewton):
    """Newton-Schulz forward and backward, from the features directly.

    It has the value and gradient of :class:`ISqrtCov` up to rounding. It takes hardly longer with more
    iterations, and with few positions a fraction of the time; but it cannot be exported.
    """

    name: ClassVar[str] = "newton-fused"
    source: ClassVar[str] = "ours"
    use: ClassVar[str] = "the same as isqrt-cov, faster with few positions or many iterations"

    iterations: int = 5

    def floor(self, dtype: torch.dtype) -> float:
        return 0.0

    def __call__(self, P: Tensor) -> Tensor:
        return newton_schulz(P, self.iterations).root

    def weights(self, s: Tensor) -> Tensor:
        x = s / root_trace(
            s
        )  # the root of an eigenvalue over the trace; the value there is x * weight
        weight, z = x, torch.ones_like(x)
        for _ in range(self.iterations):
            t = 1.5 - 0.5 * z * x * weight
            weight, z = weight * t, z * t
        return weight
