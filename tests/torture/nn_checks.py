"""Checks of every method of ``rootpool.nn`` on feature maps."""

from __future__ import annotations

import dataclasses
import functools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from matrices import symmetric
from rootpool.linalg import from_triangle, svd, triangle_weights
from rootpool.nn import (
    METHODS,
    WHITENING_METHODS,
    CholeskyWhitening,
    MatrixLog,
    NewtonWhitening,
    SpectralRoot,
    SVDTopN,
    Whitening,
    WhiteningMethod,
    covariance_pool,
    make_pool,
)

from .checks import (
    BLUNT,
    ERROR,
    MAY,
    MUST,
    Batch,
    Check,
    Figures,
    Outputs,
    Upstream,
    limit,
    ratio,
    size,
    where,
)
from .corpus import Group, times_power_of_two
from .linalg_checks import newton_schulz_of, schulz_by_torch, svd_value

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


def covariance_value(compute: torch.dtype, batch: FeatureBatch, outputs: Outputs) -> Figures:
    P = times_power_of_two(outputs[0], -2 * batch.exponent)
    return {
        "|P - AA'|": ratio(
            P - batch.covariance,
            offset(batch, compute) + unit(batch, compute, size(batch.covariance), degree=2),
        )
    }


def offset(batch: FeatureBatch, compute: torch.dtype) -> Tensor:
    """What rounding features far from zero to a coarser dtype adds to a covariance."""
    coarser = torch.finfo(compute).eps if torch.finfo(compute).eps > batch.eps else 0.0
    return batch.n * coarser * size(batch.R) * (size(batch.A) + coarser * size(batch.R))


def power_value(compute: torch.dtype, batch: FeatureBatch, outputs: Outputs) -> Figures:
    Q = times_power_of_two(outputs[0], -batch.exponent)
    scale = offset(batch, compute) + unit(batch, compute, size(batch.covariance))
    return {"|QQ - P|": ratio(Q @ Q - batch.covariance, scale)}


def signed_value(compute: torch.dtype, batch: FeatureBatch, outputs: Outputs) -> Figures:
    Q = times_power_of_two(outputs[0], -batch.exponent)
    scale = offset(batch, compute) + unit(batch, compute, size(batch.covariance))
    return {"|Q|Q| - P|": ratio(Q * Q.abs() - batch.covariance, scale)}


def log_value(compute: torch.dtype, batch: FeatureBatch, outputs: Outputs) -> Figures:
    """``exp(L) = P + ridge``."""
    ridge = MatrixLog().ridge
    eye = torch.eye(batch.d, dtype=torch.float64)
    P = times_power_of_two(batch.covariance, 2 * batch.exponent) + ridge * eye
    top = size(P)[:, None, None]
    L = outputs[0].double() - top.log() * eye
    scale = unit(batch, compute, 1 + size(outputs[0]), degree=0) + offset(batch, compute)
    return {"|exp(L) - P - ridge|": ratio(torch.linalg.matrix_exp(L) - P / top, scale)}


def seb_value(compute: torch.dtype, batch: FeatureBatch, outputs: Outputs) -> Figures:
    """``Q / (1 + nu)``, squared, is P."""
    # At a large scale eigenvalues at round-off level, which the library drops, would count.
    level = 2 * math.sqrt(batch.n) * torch.finfo(compute).eps * batch.s[:, :1].square()
    kept = torch.where(batch.s.square() > level, batch.s.square(), 0)
    lam = times_power_of_two(kept, 2 * batch.exponent).clamp(max=1e3)
    doubtful = (batch.s.square() > level / 100) & (batch.s.square() < level * 100)
    nu = (lam * torch.exp(-2 * lam)).sum(-1).sqrt()
    Q = times_power_of_two(outputs[0], -batch.exponent) / (1 + nu)[:, None, None]
    P = batch.covariance
    # The exponential feels a relative error of large eigenvalues.
    figures = {"|QQ - P|": ratio(Q @ Q - P, 8 * unit(batch, compute, size(P)))}
    return where(~doubtful.any(1) & (cast(batch, compute) < 1e4), figures)


def average_value(compute: torch.dtype, batch: FeatureBatch, outputs: Outputs) -> Figures:
    mean = times_power_of_two(outputs[0], -batch.exponent)
    return {"|x - mean|": ratio(mean - batch.R.mean(-1), unit(batch, compute, size(batch.R)))}


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


def narrow_gradient(
    batch: FeatureBatch, outputs: Outputs, upstream: Upstream, g: Tensor
) -> Figures:
    """Also within roundings of the features of what float64 throughout gives, at every condition."""
    X = batch.input.detach().requires_grad_()
    Q = pool("exact", torch.float64, batch, X)[0]
    (expected,) = torch.autograd.grad(Q, X, upstream[0].to(Q.dtype))
    scale = batch.n * batch.eps * size(expected.double())
    return {
        **exact_gradient(torch.float64, batch, outputs, upstream, g),
        "|g - g in float64|": ratio(g.double() - expected.double(), scale),
    }


def schulz_gradient(
    iterations: int,
    drops: bool,
    compute: torch.dtype,
    batch: FeatureBatch,
    outputs: Outputs,
    upstream: Upstream,
    g: Tensor,
) -> Figures:
    """Against torch's derivative of the iteration written out, in float64."""
    A = batch.A.clone().requires_grad_()
    root = schulz_by_torch(A @ A.mT, iterations)
    (expected,) = torch.autograd.grad(root, A, upstream[0].double())
    expected = (expected - expected.mean(-1, keepdim=True)) / math.sqrt(batch.R.shape[-1])
    rough = (batch.grain(1) > 1.5 * batch.eps) | (cast(batch, compute) > 1e4)
    if drops:  # singular values at round-off level, which the iteration would feel
        level = 2 * math.sqrt(batch.n) * torch.finfo(compute).eps
        small = (batch.s / torch.where(batch.s[:, :1] == 0, 1, batch.s[:, :1])).square()
        rough |= ((small > batch.eps**2) & (small < 100 * level)).any(1)
    scale = 1.5**iterations * unit(batch, compute, size(expected) + size(upstream[0]), degree=0)
    scale = scale * cast(batch, compute)
    return where(~rough, {"|g - g by torch|": ratio(g - expected, scale)})


# --------------------------------------------------------------------------------------------------
# What must work


def squares(degree: float, compute: torch.dtype, batch: FeatureBatch) -> Tensor:
    """A covariance is formed: the squares of the features must not overflow; nor the result."""
    top = torch.where(batch.s[:, 0] > 0, batch.s[:, 0], 2.0**-2000).log2() + batch.exponent
    largest = int(math.log2(torch.finfo(compute).max))
    status = torch.full((len(batch),), MUST)
    status[2 * top > largest - 8] = MAY
    status[2 * top > largest + 8] = ERROR
    # Means and differences of numbers near the end of the range may overflow on their way.
    status[batch.exponent > largest - 8] = torch.maximum(
        status[batch.exponent > largest - 8], torch.tensor(MAY)
    )
    return torch.maximum(status, limit(degree * top, batch))


def minimax_status(compute: torch.dtype, batch: FeatureBatch) -> Tensor:
    """Where rounding may leave eigenvalues below zero, the polynomials may grow without bound."""
    lowest = batch.s[:, -1].square() if batch.d <= batch.R.shape[-1] else torch.zeros(len(batch))
    level = 8 * batch.n * torch.finfo(compute).eps * batch.s.square().sum(-1)
    blind = compute == torch.float32
    status = torch.where((lowest <= level) & blind, MAY, MUST)
    return torch.maximum(status, squares(1, compute, batch))


def log_status(ridge: float, compute: torch.dtype, batch: FeatureBatch) -> Tensor:
    """The ridge must not be lost in the largest eigenvalue."""
    top = torch.exp2((2 * (batch.s[:, 0].clamp_min(1e-300).log2() + batch.exponent)).clamp_max(900))
    level = 2 * math.sqrt(batch.d) * torch.finfo(compute).eps * (top + ridge)
    status = torch.where(level * 10 > ridge, MAY, MUST)
    return torch.maximum(status, squares(0, compute, batch))


def moment_status(compute: torch.dtype, batch: FeatureBatch) -> Tensor:
    """Second moments are formed: the squares of the features, and not of their differences, count."""
    top = size(batch.R).clamp_min(2.0**-1000).log2() + batch.exponent
    largest = int(math.log2(torch.finfo(compute).max))
    status = torch.full((len(batch),), MUST)
    status[2 * top > largest - 16] = MAY
    return torch.maximum(status, squares(1, compute, batch))


def gradient_in_range(compute: torch.dtype, batch: FeatureBatch) -> Tensor:
    """Where a result does not change with the scale its gradient grows like the reciprocal."""
    top = batch.s[:, 0]
    low = torch.where(top > 0, top, 1).log2() + batch.exponent
    widest = min(batch.largest, math.log2(torch.finfo(compute).max) / 2) - 30
    return fits(compute, batch) & (low > -widest)


def ends_of_range(compute: torch.dtype, batch: FeatureBatch) -> Tensor:
    """The difference of two features may overflow in the computation."""
    largest = int(math.log2(torch.finfo(compute).max))
    return torch.where(batch.exponent >= largest - 2, MAY, MUST)


# Below, squares of features lose digits: the methods that form a covariance are documented to.
def in_range(compute: torch.dtype, batch: FeatureBatch) -> Tensor:
    low = 2 * batch.exponent > -(math.log2(torch.finfo(compute).max) - 60)
    return low


def where_in_range(measure: object, compute: torch.dtype) -> object:
    def measured(batch: FeatureBatch, *rest: object) -> Figures:
        return where(in_range(compute, batch), measure(compute, batch, *rest))

    return measured


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


def spectral(name: str, compute: torch.dtype) -> Check:
    values = {
        "newton-fused": functools.partial(isqrt_value, compute),
        "seb": functools.partial(seb_value, compute),
    }
    gradients = {
        "exact": functools.partial(exact_gradient, compute),
        "svd-newton": functools.partial(schulz_gradient, 10, True, compute),
        "newton-fused": functools.partial(schulz_gradient, 5, True, compute),
    }
    return Check(
        functools.partial(pool, name, compute),
        values.get(name, functools.partial(root_value, name, compute)),
        gradients.get(name),
        functools.partial(ends_of_range, compute),
        applies=functools.partial(fits, compute),
        company=name in ("exact", "svd-taylor"),
    )


def by_default(name: str) -> Check:
    """Decomposed in float64, the rest in the dtype of the features: right to the digits of those."""
    check = spectral(name, torch.float64)
    return dataclasses.replace(
        check, call=functools.partial(pool, name, None), gradient=narrow_gradient
    )


def through_covariance(name: str, compute: torch.dtype) -> Check:
    # Other methods are compared with 50 digits by tests/nn; here their results need only be finite.
    value, degree = {
        "isqrt-cov": (isqrt_value, 1),
        "covariance": (covariance_value, 2),
        "log": (log_value, 0),
        "power": (power_value, 1),
        "signed-sqrt": (signed_value, 1),
        "gap": (average_value, 1),
    }.get(name, (None, 0 if name == "isice" else 1))
    status = (
        functools.partial(log_status, METHODS[name]().ridge, compute)
        if name in ("log", "log-cholesky")
        else (functools.partial(squares, degree, compute))
    )
    status = functools.partial(moment_status, compute) if name == "brownian" else status
    status = functools.partial(minimax_status, compute) if name == "minimax" else status
    gradient = where_in_range(functools.partial(schulz_gradient, 5, False), compute)
    applies = gradient_in_range if name == "isice" else fits
    return Check(
        functools.partial(pool, name, compute),
        where_in_range(value, compute) if value else None,
        gradient if name == "isqrt-cov" else None,
        None if name == "gap" else status,
        None if name == "gap" else status,
        applies=functools.partial(applies, compute),
        company=name == "isqrt-cov",
    )


WHITENINGS: dict[str, WhiteningMethod] = {
    name: method() for name, method in WHITENING_METHODS.items()
}


def group_count(grouped: bool, d: int) -> int:
    """Two channels per group where that is possible, else one."""
    return (d // 2 if d % 2 == 0 else d) if grouped else 1


def whiten(method: WhiteningMethod, grouped: bool, batch: FeatureBatch, X: Tensor) -> Outputs:
    """Each item as a batch of its own: positions are samples."""
    groups = group_count(grouped, batch.d)
    layers = [Whitening(batch.d, method=method, groups=groups) for _ in X]
    return (torch.stack([layer(x.mT).mT for layer, x in zip(layers, X, strict=True)]),)


def whitening_status(batch: FeatureBatch) -> Tensor:
    if batch.R.shape[-1] < 2:
        return torch.full((len(batch),), ERROR)
    single = squares(0, torch.float32, batch)  # the running statistics are float32
    return torch.maximum(single, squares(1, torch.float64, batch))


def newton_share(A: Tensor, lam: Tensor, ridge: float, exponent: Tensor, steps: int) -> Tensor:
    """``p^2 (lam + eps) / tr`` of the iteration ``p <- (3 p - p^3 (lam + eps) / tr) / 2``: 1 at the end."""
    squares = A.square().sum((-2, -1), keepdim=True).squeeze(-1)
    trace = times_power_of_two(squares, 2 * exponent) + ridge * A.shape[-2]
    x, p = (lam + ridge) / trace, torch.ones_like(lam)
    for _ in range(steps):
        p = (3 * p - p**3 * x) / 2
    return p.square() * x


def whitening_value(
    method: WhiteningMethod, grouped: bool, batch: FeatureBatch, outputs: Outputs
) -> Figures:
    """The covariance of a group is ``W S W'``, up to the rounding of S in units of eps.

    It is ``S / (S + eps)`` for an inverse root, times what five steps of Newton reach of it. What LAPACK
    decomposes is ``S + E`` with ``|E|`` at most a rounding of the largest eigenvalue of S, and a function of
    S whose derivative is at most ``1 / eps`` answers with ``|E| / eps``. The ridge of a triangular factor may
    be larger, so that items whose rounding is not far below eps are not measured.
    """
    Y = outputs[0].double().unflatten(1, (group_count(grouped, batch.d), -1))
    C = Y @ Y.mT / Y.shape[-1]
    ridge = Whitening(1).eps
    largest = times_power_of_two(size(batch.R) ** 2, 2 * batch.exponent)
    E = batch.n * torch.finfo(torch.float64).eps * largest  # whatever the dtype of the features
    output = unit(batch, torch.float64, torch.ones(len(batch)), degree=0)
    A = batch.A.unflatten(1, (C.shape[1], -1))
    if isinstance(method, CholeskyWhitening):
        fine = BLUNT * ridge > E
        safe = torch.where(fine, batch.exponent, 0)[:, None, None, None]
        S = (A @ A.mT) * torch.exp2(2.0 * safe)
        W = torch.linalg.cholesky(S + ridge * torch.eye(S.shape[-1], dtype=S.dtype)).inverse()
        return where(fine, {"|cov - W S W'|": ratio(C - W @ S @ W.mT, output + E / ridge)})
    U, s, _ = torch.linalg.svd(A, full_matrices=False)
    lam = times_power_of_two(s.square(), 2 * batch.exponent)
    gain = 1 / (1 + ridge / lam)
    if isinstance(method, NewtonWhitening):
        gain = gain * newton_share(A, lam, ridge, batch.exponent, method.iterations)
    expected = (U * gain.unsqueeze(-2)) @ U.mT
    return {"|cov - S/(S + eps)|": ratio(C - expected, output + E / ridge)}


def far_from_zero(batch: FeatureBatch) -> Tensor:
    """The derivative ``1 / |v|`` of a direction is in range."""
    return batch.exponent > -(batch.largest - 80)


def svd_status(batch: FeatureBatch) -> Tensor:
    """Between null singular values, noise at any level, the gradient of vectors may overflow."""
    s = torch.linalg.svdvals(batch.R)
    singular = s[:, -1] <= batch.n * batch.eps * s[:, 0]
    return torch.where(far_from_zero(batch) & ~singular, MUST, MAY)


# The forms of the paper promise nothing, and studies may have registered methods of their own.
PLAIN = [
    name
    for name, method in METHODS.items()
    if method.source not in ("published", "released") and method.__module__.startswith("rootpool.")
]
SPECTRAL = [name for name in PLAIN if issubclass(METHODS[name], SpectralRoot)]

FEATURE_CHECKS = {
    **{
        name + suffix: spectral(name, compute)
        for name in SPECTRAL
        for suffix, compute in COMPUTE.items()
    },
    **{
        f"{name} by default": by_default(name)
        for name in SPECTRAL
        if METHODS[name].low_precision_ok
    },
    **{
        name + suffix: through_covariance(name, compute)
        for name in (*(n for n in PLAIN if n not in SPECTRAL), "gap")
        for suffix, compute in COMPUTE.items()
    },
    "svd-topn 2": Check(
        functools.partial(pool, SVDTopN(2), torch.float64),
        value_status=functools.partial(ends_of_range, torch.float64),
    ),
    **{
        f"Whitening, {name}{', groups' if grouped else ''}": Check(
            functools.partial(whiten, method, grouped),
            functools.partial(whitening_value, method, grouped),
            None,
            whitening_status,
        )
        for name, method in WHITENINGS.items()
        for grouped in (False, True)
    },
    "svd of features": Check(
        lambda batch, X: tuple(svd(X)), svd_value, gradient_status=svd_status, company=True
    ),
}
