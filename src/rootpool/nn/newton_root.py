"""The exact root with the gradient of the Newton-Schulz iteration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rootpool.linalg import newton_schulz, sqrtm

from .method import KernelBound, check_iterations
from .spectral_roots import SpectralRoot, assemble, power_of_two

__all__ = ["SVDNewton"]


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
        unit = power_of_two(s)  # nothing below changes with the unit of s and Z
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
        inner, columns = assemble(y_ij / root_trace.unsqueeze(-1), null, s, Z)
        # d(sqrt(tau) y(P / tau)) / d(tau), on the diagonal
        slope = y_ij.diagonal(dim1=-2, dim2=-1)
        weight = (y / 2 - slope * a) / torch.where(s == 0, 1, s)
        by_trace = (Z.diagonal(dim1=-2, dim2=-1) / root_trace * weight).sum(-1, keepdim=True)
        inner.diagonal(dim1=-2, dim2=-1).add_(by_trace * s)
        return inner, columns

    def kernel_bound(self, dtype: torch.dtype = torch.float64) -> KernelBound:
        """The largest divided difference of the iteration, in the unit where the trace is one."""
        return KernelBound(1.5**self.iterations, "(3 / 2)^K", "lam_i = lam_j = 0, tr P = 1")
