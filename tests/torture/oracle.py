"""The gradient of the exact root in 80 digits, for a sample of small feature maps."""

from __future__ import annotations

import math
from collections.abc import Iterator

import mpmath
import torch

import oracles
from rootpool.nn import covariance_pool

from .corpus import Group, normal
from .runner import Finding, run_group

SAMPLE = (2, 8)  # of sixteen; their scale is 1


def oracle_findings(group: Group) -> Iterator[Finding]:
    """Findings for the items of the sample, where the group is small enough."""
    if group.size == (5, 3):
        yield from (
            _gradient(group.alone(k)) for k, seed in enumerate(group.seeds) if seed % 16 in SAMPLE
        )


def examine(group: Group) -> list[Finding]:
    """All that is to be found out about a group; for a process that does nothing else."""
    torch.set_num_threads(1)
    return [*run_group(group), *oracle_findings(group)]


def _gradient(group: Group) -> Finding:
    """Along a direction that keeps the rank."""
    X = group.batch[0]
    d, N = X.shape
    g = group.generator(0, "oracle")
    G, left, right = normal(g, d, d).to(X.dtype), normal(g, d, d), normal(g, N, N)
    centred = X.double() - X.double().mean(1, keepdim=True)
    E = left @ centred + centred @ right

    def loss(X: mpmath.matrix) -> mpmath.mpf:
        A, _ = oracles.centred(X.T)
        return oracles.weighted(G, oracles.power(A.T * A / N, 0.5))

    Y = X.clone().requires_grad_()
    covariance_pool(Y.unsqueeze(0), output="matrix")[0].backward(G)
    error = abs(float((Y.grad.double() * E).sum()) - oracles.slope(loss, [X], [E]))
    # Singular values below the root of the precision count as zeros, and the direction feels them
    # in proportion.
    eps = torch.finfo(torch.float64).eps
    unit = max(N * group.eps, math.sqrt(d * eps)) * float(G.norm() * E.norm())
    return Finding(group.name(0), "exact in 80 digits", "gradient", error / unit if error else 0.0)
