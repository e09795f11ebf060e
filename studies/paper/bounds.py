r"""How large a kernel entry can become, by a search.

A kernel method sees eigenvalues that are at least a floor (eps in the paper). The kernel is largest
where two eigenvalues are small and either equal or one unit in the last place apart, which at eps is
:math:`\epsilon\,\epsilon`: the ordinary kernel has no bound but :math:`\epsilon^{-2}`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rootpool.linalg import GradientRule
from rootpool.nn.published import PairKernel

__all__ = ["bound_by_search", "newton_bound_by_search", "of_pairs"]


def _candidates(dtype: torch.dtype) -> Tensor:
    """Pairs of eigenvalues ``(k, 2)`` from eps up: ties, neighbours, and gaps of every size."""
    eps = torch.finfo(dtype).eps
    smaller = eps * torch.exp2(torch.arange(0, -math.log2(eps) + 1, 0.5, dtype=dtype))
    ratios = 1 + torch.cat(
        [
            torch.zeros(1, dtype=dtype),
            torch.exp2(torch.arange(math.log2(eps), 60, 0.5, dtype=dtype)),
        ]
    )
    pairs = torch.stack(
        [smaller[:, None].expand(-1, len(ratios)), smaller[:, None] * ratios], dim=-1
    )
    return pairs.flatten(0, 1)


def bound_by_search(
    kernel: PairKernel, dtype: torch.dtype = torch.float64
) -> tuple[float, tuple[float, float]]:
    """The largest ``|K_ij|`` over pairs of eigenvalues from eps up, and the pair, the smaller first.

    A grid over many orders of magnitude in eigenvalue and gap, then ever closer around the best. What is
    not finite counts as infinite.
    """
    pairs = _candidates(dtype)
    eps = torch.finfo(dtype).eps
    generator = torch.Generator().manual_seed(0)
    best, where = -1.0, pairs[0]
    for width in (1.0, 0.1, 1e-2, 1e-4, 1e-8):
        values = kernel(pairs[:, 1], pairs[:, 0]).abs()
        values = torch.where(values.isfinite(), values, math.inf)
        k = int(values.argmax())
        if float(values[k]) > best:
            best, where = float(values[k]), pairs[k].clone()
        noise = torch.randn(2000, 2, generator=generator, dtype=dtype)
        pairs = (where * torch.exp(width * noise)).clamp_min(eps).sort(-1).values
    return best, (float(where[0]), float(where[1]))


def of_pairs(rule: GradientRule) -> PairKernel:
    """A rule as a function of the larger and the smaller eigenvalue of single pairs."""
    return lambda larger, smaller: rule(torch.stack([smaller, larger], -1))[:, 1, 0]


def newton_bound_by_search(iterations: int, points: int = 400) -> tuple[float, tuple[float, float]]:
    """The largest divided difference of the Newton-Schulz polynomial over eigenvalues in [0, 1].

    Differences of values of the iteration itself, and derivatives by automatic differentiation where
    the two eigenvalues are the same.
    """

    def iterate(a: Tensor) -> Tensor:
        y, z = a, torch.ones_like(a)
        for _ in range(iterations):
            t = 1.5 - 0.5 * z * y
            y, z = y * t, z * t
        return y

    a = torch.cat([torch.zeros(1), torch.logspace(-12, 0, points - 1)]).double().requires_grad_()
    with torch.enable_grad():
        y = iterate(a)
        (slope,) = torch.autograd.grad(y.sum(), a)
    a, y = a.detach(), y.detach()
    gap = a[:, None] - a
    quotient = torch.where(gap == 0, slope, (y[:, None] - y) / torch.where(gap == 0, 1, gap))
    k = int(quotient.abs().argmax())
    i, j = divmod(k, len(a))
    return float(quotient[i, j].abs()), (float(a[i]), float(a[j]))
