"""A sample of small cases against 50 digits: values and gradients, entry by entry."""

from __future__ import annotations

import math
from collections.abc import Iterator

import mpmath
import torch
from torch import Tensor

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
    batch = matrix_batch(group)
    # Beyond, float32 eigenvalues have no digit left, and mpmath's iteration for roots fails.
    if int(definite(batch)[0]) != MUST or float(batch.condition[0]) > 1e5:
        return
    A = group.batch[0]
    G = symmetric(normal(group.generator(0, "oracle"), *A.shape))
    unit = A.shape[-1] * group.eps * float(batch.condition[0])
    for name, function in FUNCTIONS.items():
        try:
            value, gradient = oracles.value_and_derivative(name, A.double(), G.to(A.dtype).double())
        except mpmath.mp.NoConvergence:  # the oracle does not know; the residuals above do
            continue
        B = A.clone().requires_grad_()
        F = function(B)
        F.backward(G.to(A.dtype))
        for what, got, expected in (("value", F.detach(), value), ("gradient", B.grad, gradient)):
            size = float(expected.norm()) + (1.0 if name == "log" and what == "value" else 0.0)
            error = float((got.double() - expected).norm())
            yield Finding(
                group.name(0),
                f"{name} in 50 digits",
                what,
                0.0 if error == 0 else error / size / unit,
            )


def _root(X: mpmath.matrix) -> mpmath.matrix:
    """The root of the covariance of ``X`` by an eigendecomposition in 50 digits."""
    d, N = X.rows, X.cols
    means = [sum(X[i, k] for k in range(N)) / N for i in range(d)]
    A = mpmath.matrix(d, N)
    for i in range(d):
        for k in range(N):
            A[i, k] = X[i, k] - means[i]
    lam, U = mpmath.eigsy(A * A.T / N)
    roots = mpmath.diag([mpmath.sqrt(max(value, mpmath.mpf(0))) for value in lam])
    return U * roots * U.T


def _features(group: Group) -> Iterator[Finding]:
    """The gradient along a direction that keeps the rank, against a central difference."""
    X = group.batch[0]
    d, N = X.shape
    g = group.generator(0, "oracle")
    G, left, right = normal(g, d, d), normal(g, d, d), normal(g, N, N)
    centred = X.double() - X.double().mean(1, keepdim=True)
    E = left @ centred + centred @ right
    Y = X.clone().requires_grad_()
    Q = covariance_pool(Y.unsqueeze(0), output="matrix")[0]
    Q.backward(G.to(X.dtype))
    step = mpmath.mpf(10) ** -20

    def shifted(sign: int) -> mpmath.mpf:
        moved = mpmath.matrix(d, N)
        for i in range(d):
            for k in range(N):
                moved[i, k] = mpmath.mpf(X[i, k].item()) + sign * step * mpmath.mpf(E[i, k].item())
        root = _root(moved)
        weight = G.to(X.dtype).double()
        return sum(root[i, j] * mpmath.mpf(weight[i, j].item()) for i in range(d) for j in range(d))

    expected = float((shifted(1) - shifted(-1)) / (2 * step))
    error = abs(float((Y.grad.double() * E).sum()) - expected)
    # Singular values below the root of the precision count as zeros, and the direction feels them
    # in proportion.
    eps = torch.finfo(torch.float64).eps
    unit = max(N * group.eps, math.sqrt(d * eps)) * float(G.norm() * _size(E))
    yield Finding(group.name(0), "exact in 50 digits", "gradient", error / unit if error else 0.0)


def _size(x: Tensor) -> float:
    return float(x.norm())
