"""Checks of every method of ``rootpool.nn`` on feature maps."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from matrices import symmetric
from rootpool.linalg import from_triangle, svd, triangle_weights
from rootpool.nn import METHODS, SpectralRoot, SVDTopN, covariance_pool, make_pool

from .checks import (
    BLUNT,
    MAY,
    MUST,
    Batch,
    Check,
    Figures,
    Outputs,
    Upstream,
    due,
    limit,
    ratio,
    size,
    where,
)
from .corpus import Group, times_power_of_two
from .linalg_checks import newton_schulz_of, svd_value

COMPUTE = {"": torch.float64, " in float32": torch.float32}


@dataclass(frozen=True)
class FeatureBatch(Batch):
    R: Tensor  # the features without their scales, float64
    A: Tensor  # centred, over sqrt(N)
    U: Tensor
    s: Tensor
    V: Tensor

    @property
    def d(self) -> int:
        return self.R.shape[1]

    @property
    def n(self) -> int:
        return max(self.R.shape[1:])

    @property
    def covariance(self) -> Tensor:
        return self.A @ self.A.mT


def feature_batch(group: Group) -> FeatureBatch:
    R = group.unscaled
    centred = R - R[..., :1]
    A = (centred - centred.mean(-1, keepdim=True)) / math.sqrt(R.shape[-1])
    U, s, Vh = torch.linalg.svd(A, full_matrices=False)
    return FeatureBatch(
        dtype=group.dtype,
        eps=group.eps,
        input=group.batch,
        exponent=group.exponents,
        index=torch.arange(len(R)),
        R=R,
        A=A,
        U=U,
        s=s,
        V=Vh.mT,
    )


def coarsest(batch: FeatureBatch, compute: torch.dtype) -> float:
    return max(batch.eps, torch.finfo(compute).eps)


def unit(batch: FeatureBatch, compute: torch.dtype, *sizes: Tensor, degree: float = 1) -> Tensor:
    """Relative rounding of the sizes, and the smallest denormal number without the scale."""
    denormal = torch.exp2(batch.smallest - degree * batch.exponent.double())
    return batch.n * (coarsest(batch, compute) * sum(sizes) + denormal)


def cast(batch: FeatureBatch, compute: torch.dtype) -> Tensor:
    """Relative error of ``A`` when features are rounded to a coarser dtype before they are centred."""
    if torch.finfo(compute).eps <= batch.eps:
        return torch.ones(len(batch), dtype=torch.float64)
    return 1 + size(batch.R) / torch.where(size(batch.A) == 0, torch.inf, size(batch.A))


def fits(compute: torch.dtype, batch: FeatureBatch) -> Tensor:
    """Whether features of another dtype are in the range of the computation."""
    return (batch.exponent.abs() < math.log2(torch.finfo(compute).max) - 8) | (
        batch.dtype == compute
    )


# --------------------------------------------------------------------------------------------------
# Values


def root_value(name: str, compute: torch.dtype, batch: FeatureBatch, outputs: Outputs) -> Figures:
    """``Q Q = P``, with eigenvalues raised to the floor of the paper's methods."""
    method = METHODS[name]()
    floor = method.floor(compute)
    # In a power of two near the larger of features and floor, both stay in range.
    k = batch.exponent.clamp_min(round(math.log2(floor) / 2)) if floor else batch.exponent
    shift = (2 * (batch.exponent - k)).double().unsqueeze(-1)
    lam = torch.cat([batch.s.square(), batch.s.new_zeros(len(batch), batch.d)], 1)[:, : batch.d]
    lowest = floor * torch.exp2(-2.0 * k.double()).unsqueeze(-1) if floor else torch.zeros(1, 1)
    U = complete(batch.U)
    P = (U * torch.maximum(lam * torch.exp2(shift), lowest).unsqueeze(-2)) @ U.mT
    Q = times_power_of_two(outputs[0], -k)
    return {"|QQ - P|": ratio(Q @ Q - P, unit(batch, compute, size(P)))}


def complete(U: Tensor) -> Tensor:
    """An orthogonal matrix whose first columns are ``U`` (up to sign)."""
    if U.shape[-1] == U.shape[-2]:
        return U
    return torch.linalg.qr(U, mode="complete")[0]


def isqrt_value(
    compute: torch.dtype, batch: FeatureBatch, outputs: Outputs, iterations: int = 5
) -> Figures:
    lam, U = batch.s.square(), batch.U
    expected = (U * newton_schulz_of(lam, iterations).unsqueeze(-2)) @ U.mT
    Q = times_power_of_two(outputs[0], -batch.exponent)
    # A step multiplies rounding errors in the null space of P by up to 1.5.
    scale = 1.05 * 1.5**iterations * unit(batch, compute, size(expected)) * cast(batch, compute)
    return {"|Q - Q by numbers|": ratio(Q - expected, scale)}


# --------------------------------------------------------------------------------------------------
# Gradients


def exact_gradient(
    compute: torch.dtype, batch: FeatureBatch, outputs: Outputs, upstream: Upstream, g: Tensor
) -> Figures:
    r"""Four identities that determine the gradient and share no formula with the library.

    With the polar form ``A = Q R``: moving ``Q`` by a symmetric Z that keeps the rank moves A by ``Z R``,
    so that ``sym(g R^T) = sym(G)`` except between null vectors; turning A by an orthogonal matrix from the
    right leaves Q, so ``A^T g`` is symmetric; directions outside the rows of A have no gradient; and
    neither has the mean.
    """
    G = upstream[0].double()
    eps, n = coarsest(batch, compute), batch.n
    g = g.double() * math.sqrt(batch.R.shape[-1])  # with respect to A instead of X
    top = batch.s[:, :1]
    level = 2 * math.sqrt(n) * torch.finfo(compute).eps * top.square()
    kept = (batch.s.square() > level) & (top > 0)
    U, V = batch.U * kept.unsqueeze(-2), batch.V * kept.unsqueeze(-2)
    least = torch.where(kept, batch.s, torch.inf).amin(1)
    condition = torch.where(kept.any(1), top[:, 0] / least, 1)
    doubtful = ((batch.s.square() > level / 100) & (batch.s.square() < level * 100)).any(1)
    doubtful |= batch.grain(1) > 1.5 * batch.eps  # denormal features: their differences are rough
    N = torch.eye(batch.d, dtype=torch.float64) - U @ U.mT
    S = symmetric(G)
    expected = S - N @ S @ N
    scale = n * eps * condition.square() * (size(S) + size(g)) * cast(batch, compute)
    unit_of_A = torch.where(top[:, 0] > 0, top[:, 0], 1)
    turn = batch.A.mT @ g / unit_of_A[:, None, None]
    figures = {
        "|sym(gR') - S|": ratio(symmetric(g @ (V @ U.mT)) - expected, scale),
        "|A'g - g'A|": ratio(turn - turn.mT, scale),
        "|g (I - VV')|": ratio(g - g @ V @ V.mT, scale),
        "|g 1|": ratio(g.sum(-1, keepdim=True), scale),
    }
    blunt = n * eps * condition.square() * cast(batch, compute) > BLUNT
    return where(~doubtful & ~blunt, figures)


# --------------------------------------------------------------------------------------------------
# What must work


def squares(
    batch: FeatureBatch, compute: torch.dtype, degree: float = 1, raw: bool = False
) -> Tensor:
    """A covariance is formed: the squares of the features must not overflow; nor the result.

    Where second moments are formed, the features themselves and not their differences count (``raw``).
    """
    top = torch.where(batch.s[:, 0] > 0, batch.s[:, 0], 2.0**-2000).log2() + batch.exponent
    largest = int(math.log2(torch.finfo(compute).max))
    # Means and differences of numbers near the end of the range may overflow on their way.
    doubtful = (2 * top > largest - 8) | (batch.exponent > largest - 8)
    if raw:
        moments = 2 * (size(batch.R).clamp_min(2.0**-1000).log2() + batch.exponent)
        doubtful |= moments > largest - 16
    return torch.maximum(due(doubtful, 2 * top > largest + 8), limit(degree * top, batch))


def minimax_status(batch: FeatureBatch, compute: torch.dtype) -> Tensor:
    """Where rounding may leave eigenvalues below zero, the polynomials may grow without bound."""
    lowest = batch.s[:, -1].square() if batch.d <= batch.R.shape[-1] else torch.zeros(len(batch))
    level = 8 * batch.n * torch.finfo(compute).eps * batch.s.square().sum(-1)
    blind = compute == torch.float32
    status = torch.where((lowest <= level) & blind, MAY, MUST)
    return torch.maximum(status, squares(batch, compute))


def log_status(batch: FeatureBatch, compute: torch.dtype, ridge: float) -> Tensor:
    """The ridge must not be lost in the largest eigenvalue."""
    top = torch.exp2((2 * (batch.s[:, 0].clamp_min(1e-300).log2() + batch.exponent)).clamp_max(900))
    level = 2 * math.sqrt(batch.d) * torch.finfo(compute).eps * (top + ridge)
    status = torch.where(level * 10 > ridge, MAY, MUST)
    return torch.maximum(status, squares(batch, compute, degree=0))


def gradient_in_range(compute: torch.dtype, batch: FeatureBatch) -> Tensor:
    """Where a result does not change with the scale its gradient grows like the reciprocal."""
    top = batch.s[:, 0]
    low = torch.where(top > 0, top, 1).log2() + batch.exponent
    widest = min(batch.largest, math.log2(torch.finfo(compute).max) / 2) - 30
    return fits(compute, batch) & (low > -widest)


def ends_of_range(batch: FeatureBatch, compute: torch.dtype) -> Tensor:
    """The difference of two features may overflow in the computation."""
    largest = int(math.log2(torch.finfo(compute).max))
    return torch.where(batch.exponent >= largest - 2, MAY, MUST)


def where_in_range(measure: object, compute: torch.dtype) -> object:
    """Below, squares of features lose digits: the methods that form a covariance are documented to."""

    def measured(batch: FeatureBatch, *rest: object) -> Figures:
        fine = 2 * batch.exponent > -(math.log2(torch.finfo(compute).max) - 60)
        return where(fine, measure(compute, batch, *rest))

    return measured


def svd_status(batch: FeatureBatch) -> Tensor:
    """Between null singular values, noise at any level, the gradient of vectors may overflow."""
    s = torch.linalg.svdvals(batch.R)
    regular = s[:, -1] > batch.n * batch.eps * s[:, 0]
    return torch.where(regular & (batch.exponent > -(batch.largest - 80)), MUST, MAY)


# --------------------------------------------------------------------------------------------------
# The table

OUTPUTS = ("matrix", "triangle", "isometric")


def pool(method: object, compute: torch.dtype | None, batch: FeatureBatch, X: Tensor) -> Outputs:
    """The pooled matrix by way of each form of the output in turn."""
    output = OUTPUTS[batch.d % 3]
    if method == "gap":
        return (make_pool(batch.d, "gap")(X),)
    Q = covariance_pool(X, method, compute_dtype=compute, output=output)
    if output == "matrix":
        return (Q,)
    if output == "isometric":
        Q = Q / triangle_weights(batch.d, dtype=Q.dtype)
    return (from_triangle(Q),)


# What must work, of the methods that form a covariance and do not take the range of the default: squares and
# a result of degree 1.
STATUSES = {
    "covariance": (squares, {"degree": 2}),
    "isice": (squares, {"degree": 0}),
    "brownian": (squares, {"raw": True}),
    "log": (log_status, {"ridge": METHODS["log"]().ridge}),
    "log-cholesky": (log_status, {"ridge": METHODS["log-cholesky"]().ridge}),
    "minimax": (minimax_status, {}),
    "polar": (ends_of_range, {}),  # no covariance is formed
}


def method_check(name: str, compute: torch.dtype) -> Check:
    """Other values and gradients are compared by tests/nn; here they need only be finite."""
    spectral = name in SPECTRAL
    value = functools.partial(root_value, name, compute) if spectral else None
    special = {
        "newton-fused": functools.partial(isqrt_value, compute),
        "isqrt-cov": where_in_range(isqrt_value, compute),
        "seb": None,
    }
    judge, options = STATUSES.get(name, (ends_of_range if spectral else squares, {}))
    status = None if name == "gap" else functools.partial(judge, compute=compute, **options)
    return Check(
        functools.partial(pool, name, compute),
        special.get(name, value),
        functools.partial(exact_gradient, compute) if name == "exact" else None,
        status,
        None if spectral else status,
        applies=functools.partial(gradient_in_range if name == "isice" else fits, compute),
        company=name in ("exact", "svd-taylor", "isqrt-cov"),
    )


# The forms of the paper promise nothing, and studies may have registered methods of their own.
PLAIN = [
    name
    for name, method in METHODS.items()
    if method.source not in ("published", "released") and method.__module__.startswith("rootpool.")
]
SPECTRAL = [name for name in PLAIN if issubclass(METHODS[name], SpectralRoot)]

FEATURE_CHECKS = {
    **{
        name + suffix: method_check(name, compute)
        for name in (*PLAIN, "gap")
        for suffix, compute in COMPUTE.items()
    },
    "svd-topn 2": Check(
        functools.partial(pool, SVDTopN(2), torch.float64),
        value_status=functools.partial(ends_of_range, compute=torch.float64),
    ),
    "svd of features": Check(
        lambda batch, X: tuple(svd(X)), svd_value, gradient_status=svd_status, company=True
    ),
}
