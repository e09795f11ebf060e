"""A sample of small cases against 80 digits."""

from __future__ import annotations

import math
from collections.abc import Iterator

import mpmath
import torch

import oracles
from matrices import symmetric
from rootpool.linalg import inv_sqrtm, logm, sqrtm
from rootpool.nn import covariance_pool

from .checks import MUST
from .corpus import Group, normal
from .linalg_checks import definite, matrix_batch
from .runner import Finding, run_group

FUNCTIONS = {"sqrt": sqrtm, "inv_sqrt": inv_sqrtm, "log": logm}
SAMPLE = (2, 8)  # of sixteen; their scale is 1


def oracle_findings(group: Group) -> Iterator[Finding]:
    """Findings for the items of the sample, where the group is small enough."""
    if group.size not in (2, 3, (5, 3)):
        return
    for k, seed in enumerate(group.seeds):
        if seed % 16 in SAMPLE:
            yield from (_matrix if group.family == "matrix" else _features)(group.alone(k))


def examine(group: Group) -> list[Finding]:
    """All that is to be found out about a group; for a process that does nothing else."""
    torch.set_num_threads(1)
    return [*run_group(group), *oracle_findings(group)]


def _matrix(group: Group) -> Iterator[Finding]:
    """Values and gradients."""
    batch = matrix_batch(group)
    if int(definite(batch)[0]) != MUST or float(batch.condition[0]) > 1e5:
        return  # float32 eigenvalues would have no digit left
    A = group.batch[0]
    G = symmetric(normal(group.generator(0, "oracle"), *A.shape)).to(A.dtype)
    unit = A.shape[-1] * group.eps * float(batch.condition[0])
    for name, function in FUNCTIONS.items():
        B = A.clone().requires_grad_()
        F = function(B)
        F.backward(G)
        for what, got, expected in zip(
            ("value", "gradient"),
            (F.detach(), B.grad),
            oracles.derivatives(name, A, G),
            strict=True,
        ):
            size = float(expected.norm()) + (1.0 if name == "log" and what == "value" else 0.0)
            error = float((got.double() - expected).norm())
            yield Finding(group.name(0), f"{name} in 80 digits", what, error / size / unit)


def _features(group: Group) -> Iterator[Finding]:
    """The gradient along a direction that keeps the rank."""
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
    yield Finding(group.name(0), "exact in 80 digits", "gradient", error / unit if error else 0.0)
