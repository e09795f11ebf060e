"""Checks of every function of ``rootpool.linalg`` on symmetric matrices."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from matrices import symmetric
from rootpool import linalg as la

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


@dataclass(frozen=True)
class MatrixBatch(Batch):
    R: Tensor  # the matrices without their scales, float64
    lam: Tensor  # eigenvalues of R
    U: Tensor
    level: Tensor  # eigenvalues of R up to this are round-off

    @property
    def n(self) -> int:
        return self.R.shape[-1]

    @property
    def top(self) -> Tensor:
        return self.lam.abs().amax(-1)

    @property
    def condition(self) -> Tensor:
        return self.top / self.lam[:, 0]


def matrix_batch(group: Group) -> MatrixBatch:
    R, n = group.unscaled, group.batch.shape[-1]
    lam, U = torch.linalg.eigh(R)
    tiny = torch.finfo(group.dtype).tiny * group.eps
    denormal = n * times_power_of_two(
        torch.full((len(R),), tiny, dtype=torch.float64), -group.exponents
    )
    return MatrixBatch(
        dtype=group.dtype,
        eps=group.eps,
        input=group.batch,
        exponent=group.exponents,
        index=torch.arange(len(R)),
        R=R,
        lam=lam,
        U=U,
        level=2 * math.sqrt(n) * group.eps * lam.abs().amax(-1) + denormal,
    )


# --------------------------------------------------------------------------------------------------
# What must work


def semidefinite(batch: MatrixBatch) -> Tensor:
    least = batch.lam[:, 0]
    return due(least < -batch.level / 2, least < -10 * batch.level)


def definite(batch: MatrixBatch) -> Tensor:
    least = batch.lam[:, 0]
    return due(least <= 10 * batch.level, least <= batch.level / 10)


def positive(batch: MatrixBatch) -> Tensor:
    """Newton-Schulz does not check its input, and diverges on what is not semi-definite."""
    return batch.lam[:, 0] >= -batch.n * batch.eps * batch.top


def exponent_of(batch: MatrixBatch, eigenvalue: Tensor, degree: float) -> Tensor:
    """Of ``lam^degree`` with its scale."""
    known = eigenvalue > 0
    exponent = batch.exponent + torch.where(known, eigenvalue, 1).log2()
    return torch.where(known, degree * exponent, 0)


def power_status(batch: MatrixBatch, degree: float, derivative: bool = False) -> Tensor:
    domain = semidefinite(batch) if degree > 0 else definite(batch)
    order = degree - 1 if derivative else degree
    kept = torch.where(batch.lam > batch.level.unsqueeze(-1), batch.lam, torch.inf).amin(-1)
    kept = torch.where(kept.isfinite(), kept, 1)
    largest = exponent_of(batch, batch.top if order > 0 else kept, order)
    return torch.maximum(domain, limit(largest, batch))


def tiny_gaps(batch: MatrixBatch) -> Tensor:
    """Gradients of vectors divide by gaps: what is left of them near the end of the range."""
    lam = torch.cat([batch.lam, batch.lam.abs()], 1).sort().values
    gaps = lam.diff(dim=-1)
    least = torch.where(gaps > 0, gaps, torch.inf).amin(-1).clamp_max(1)
    room = batch.largest + 2 * math.log2(batch.eps)
    return torch.where(batch.exponent + least.log2() < -room, MAY, MUST)


def tiny_singular_values(batch: MatrixBatch) -> Tensor:
    """Gradients of singular vectors divide by singular values too; null ones are any tiny number."""
    sizes = batch.lam.abs()
    singular = sizes.amin(-1) <= batch.n * batch.eps * sizes.amax(-1)
    return torch.where(singular, MAY, tiny_gaps(batch))


# --------------------------------------------------------------------------------------------------
# Measures


def unit(batch: MatrixBatch, *sizes: Tensor, degree: float = 1.0) -> Tensor:
    return batch.n * batch.grain(degree) * sum(sizes)


def back(batch: MatrixBatch, x: Tensor, degree: float) -> Tensor:
    """A result without the scale of the input, float64."""
    return times_power_of_two(x, (-degree * batch.exponent.double()).round())


def symmetry(batch: MatrixBatch, Y: Tensor) -> Figures:
    smallest = 2.0**batch.smallest
    return {
        "symmetry": ratio(Y.double() - Y.double().mT, batch.n * (batch.eps * size(Y) + smallest))
    }


def tangent(Q: Tensor, S: Tensor, eps: float) -> Tensor:
    """``S`` without its part between two zero eigenvalues of ``Q``."""
    s, U = torch.linalg.eigh(Q)
    null = (s.abs() <= eps**0.75 * s.abs().amax(-1, True)).double()
    N = (U * null.unsqueeze(-2)) @ U.mT
    return S - N @ S @ N


def metric(n: int) -> Tensor:
    """A well-conditioned B for ``A u = lam B u``, whose entries all dtypes hold."""
    return 2 * torch.eye(n, dtype=torch.float64) + 2.0 ** -math.ceil(math.log2(n))


def eigh_value(batch: MatrixBatch, outputs: Outputs, generalised: bool = False) -> Figures:
    lam, U = back(batch, outputs[0], 1), outputs[1].double()
    eye = torch.eye(batch.n, dtype=torch.float64)
    dual = metric(batch.n) @ U if generalised else U
    residual = batch.R @ U - dual * lam.unsqueeze(-2)
    return {
        # For a pair, a root of B and three products more.
        "|AU - U lam|": ratio(residual, unit(batch, size(batch.R)) * (4 if generalised else 1)),
        "|U'U - I|": ratio(dual.mT @ U - eye, torch.full((len(batch),), batch.n * batch.eps)),
        "ascending": torch.where((lam.diff(dim=-1) >= 0).all(-1), 0.0, torch.inf),
    }


def eigh_gradient(
    batch: MatrixBatch, outputs: Outputs, upstream: Upstream, Y: Tensor, generalised: bool = False
) -> Figures:
    """``(U'YU)_ij (lam_j - lam_i) = skew(U' dU)_ij``, and ``dlam`` on the diagonal; ``BU`` for pairs."""
    lam, U = back(batch, outputs[0], 1), outputs[1].double()
    dual = metric(batch.n) @ U if generalised else U
    M = dual.mT @ back(batch, Y, -1) @ dual
    C = U.mT @ upstream[1].double()
    skew = (C - C.mT) / 2
    gap = lam.unsqueeze(-2) - lam.unsqueeze(-1)
    residual = torch.where(gap == 0, 0, M * gap - skew)
    figures = symmetry(batch, Y)
    figures["|K dU - dA|"] = ratio(residual, unit(batch, size(M) * batch.top, size(C), degree=0))
    return figures


def power_value(m: int, q: int, batch: MatrixBatch, outputs: Outputs) -> Figures:
    """``F^q = A^m`` for ``F = A^(m/q)``, or ``F^q A = I`` if ``m = -1``."""
    F = back(batch, outputs[0], m / q)
    power, name = torch.linalg.matrix_power(F, q), f"|F^{q} - A^{m}|"
    if m > 0:
        expected = torch.linalg.matrix_power(batch.R, m)
        scale = unit(batch, size(batch.R) ** m, degree=m) * length(q, batch)
        return {name: ratio(power - expected, scale)}
    largest = size(batch.R) * size(F) ** q
    scale = torch.maximum(unit(batch, largest), unit(batch, largest, degree=m / q))
    scale = scale * length(q, batch)
    eye = torch.eye(batch.n, dtype=torch.float64)
    return where(scale < BLUNT, {name: ratio(power @ batch.R - eye, scale)})


def power_gradient(
    m: int, q: int, batch: MatrixBatch, outputs: Outputs, upstream: Upstream, Y: Tensor
) -> Figures:
    """The derivative of ``F^q`` along Y is that of ``A^m`` along S: for a square root, ``F Y + Y F = S``."""
    raw, F, Y = Y, back(batch, outputs[0], m / q), back(batch, Y, m / q - 1)
    S = symmetric(upstream[0].double())
    if m < 0:  # -A^-1 S A^-1
        C = torch.linalg.matrix_power(F, q)
        expected, largest = -C @ S @ C, size(F) ** (2 * q) * size(S)
    else:
        S = S if m > 1 else tangent(F, S, batch.eps)
        expected, largest = along(batch.R, S, m), m * size(batch.R) ** (m - 1) * size(S)
    scale = unit(batch, q * size(F) ** (q - 1) * size(Y), largest, degree=m / q - 1)
    figure = ratio(along(F, Y, q) - expected, scale * length(q, batch))
    return {**symmetry(batch, raw), f"|dF^{q}[Y] - dA^{m}[S]|": figure}


def along(A: Tensor, E: Tensor, k: int) -> Tensor:
    """The derivative of ``A^k`` along E."""
    powers = [torch.linalg.matrix_power(A, i) for i in range(k)]
    return torch.stack([powers[i] @ E @ powers[k - 1 - i] for i in range(k)]).sum(0)


def length(q: int, batch: MatrixBatch) -> Tensor:
    """An exponent that is not exactly a third is felt in proportion to the logarithm of the scale."""
    return 1 + batch.exponent.abs().double() * (q == 3)


def _log_of(batch: MatrixBatch, L: Tensor) -> tuple[Tensor, Tensor]:
    shift = batch.exponent.double() * math.log(2)
    eye = torch.eye(batch.n, dtype=torch.float64)
    return L.double() - shift[:, None, None] * eye, 1 + size(L)


def exp_along(A: Tensor, E: Tensor) -> Tensor:
    """The derivative of the exponential along E: the corner of ``exp [[A, E], [0, A]]``."""
    n = A.shape[-1]
    block = torch.cat([torch.cat([A, E], -1), torch.cat([0 * A, A], -1)], -2)
    return torch.linalg.matrix_exp(block)[:, :n, n:]


def log_value(batch: MatrixBatch, outputs: Outputs) -> Figures:
    L, length = _log_of(batch, outputs[0])
    residual = torch.linalg.matrix_exp(L) - batch.R
    return {"|exp(L) - A|": ratio(residual, unit(batch, length * size(batch.R)))}


def log_gradient(batch: MatrixBatch, outputs: Outputs, upstream: Upstream, Y: Tensor) -> Figures:
    """The derivative of exp along Y must be S."""
    L, length = _log_of(batch, outputs[0])
    raw, Y = Y, back(batch, Y, -1)
    strength = size(Y)
    D = exp_along(L, Y / strength[:, None, None]) * strength[:, None, None]
    scale = unit(batch, length * strength * size(batch.R), degree=0)
    return {
        **symmetry(batch, raw),
        "|dexp(L)[Y] - S|": ratio(D - symmetric(upstream[0].double()), scale),
    }


FLOOR = 1e-3


def floored_value(f: Callable[[Tensor], Tensor], batch: MatrixBatch, outputs: Outputs) -> Figures:
    """A function of the eigenvalues, number by number; its derivative is at most ``f(floor) / floor``."""
    lam = times_power_of_two(batch.lam, batch.exponent).clamp_min(FLOOR)
    expected = (batch.U * f(lam).unsqueeze(-2)) @ batch.U.mT
    top = lam.amax(-1)
    scale = batch.n * batch.eps * (size(expected) + f(lam).abs().amax(-1) * top / FLOOR)
    figures = {"|F - f(max(A, floor))|": ratio(outputs[0].double() - expected, scale)}
    return where(scale < BLUNT * size(expected), figures)


def newton_schulz_of(lam: Tensor, iterations: int) -> Tensor:
    """The iteration on eigenvalues, number by number."""
    total = lam.sum(-1, keepdim=True)
    total = torch.where(total == 0, 1, total)
    y, z = lam / total, torch.ones_like(lam)
    for _ in range(iterations):
        t = 1.5 - 0.5 * z * y
        y, z = y * t, z * t
    return y * total.sqrt()


def schulz_value(iterations: int, batch: MatrixBatch, outputs: Outputs) -> Figures:
    expected = (batch.U * newton_schulz_of(batch.lam, iterations).unsqueeze(-2)) @ batch.U.mT
    residual = back(batch, outputs[0], 0.5) - expected
    growth = 1.5**iterations
    return {"|Q - Q by numbers|": ratio(residual, growth * unit(batch, size(expected), degree=0.5))}


def numbers(x: Tensor) -> Tensor:
    return x.unsqueeze(-1)  # for ratio, which takes norms


def euler(
    batch: MatrixBatch,
    outputs: Outputs,
    upstream: Upstream,
    Y: Tensor,
    degree: float = 1,
    growth: float = 1,
) -> Figures:
    """What is homogeneous has ``<Y, A> = degree <g, F>``."""
    g, F, Y = upstream[0].double(), back(batch, outputs[0], degree), back(batch, Y, degree - 1)
    gap = (Y * batch.R).flatten(1).sum(1) - degree * (g * F).flatten(1).sum(1)
    sizes = size(batch.R) * size(Y) + size(g) * size(F)
    scale = growth * torch.maximum(*(unit(batch, sizes, degree=k) for k in (degree, degree - 1)))
    return {"<Y, A> - degree <g, F>": ratio(numbers(gap), scale)}


def svd_value(batch: MatrixBatch, outputs: Outputs) -> Figures:
    U, s, V = outputs[0].double(), back(batch, outputs[1], 1), outputs[2].double().mT
    eye = torch.eye(s.shape[-1], dtype=torch.float64)
    orthogonal = torch.full((len(batch),), max(batch.R.shape[-2:]) * batch.eps)
    return {
        "|A - USV'|": ratio((U * s.unsqueeze(-2)) @ V.mT - batch.R, unit(batch, size(batch.R))),
        "|U'U - I|": ratio(U.mT @ U - eye, orthogonal),
        "|V'V - I|": ratio(V.mT @ V - eye, orthogonal),
    }


# --------------------------------------------------------------------------------------------------
# The table


def one(function: Callable[..., Tensor], **options: object) -> Callable[..., Outputs]:
    return lambda batch, A: (function(A, **options),)


def power_check(call: Callable[..., Outputs], m: int, q: int) -> Check:
    """Of the function ``A^(m/q)``."""
    return Check(
        call,
        functools.partial(power_value, m, q),
        functools.partial(power_gradient, m, q),
        functools.partial(power_status, degree=m / q),
        functools.partial(power_status, degree=m / q, derivative=True),
        applies=lambda batch: batch.exponent % q == 0,  # the scale of the result is a power of two
        company=True,
    )


def only_symmetry(batch: MatrixBatch, outputs: Outputs, upstream: Upstream, Y: Tensor) -> Figures:
    return symmetry(batch, Y)


def half(batch: MatrixBatch, A: Tensor) -> Outputs:
    return (la.sqrtm(A, keep_largest=(batch.n + 1) // 2),)


MATRIX_CHECKS = {
    "sqrtm": power_check(one(la.sqrtm), 1, 2),
    "inv_sqrtm": power_check(one(la.inv_sqrtm), -1, 2),
    "powm 1/3": power_check(one(la.powm, exponent=1 / 3), 1, 3),
    "powm 2": power_check(one(la.powm, exponent=2), 2, 1),
    "powm -1": power_check(one(la.powm, exponent=-1), -1, 1),
    "inverse_root 3": power_check(one(la.inverse_root, p=3), -1, 3),
    "inverse_root 4": power_check(one(la.inverse_root, p=4), -1, 4),
    "logm": Check(
        one(la.logm),
        log_value,
        log_gradient,
        definite,
        functools.partial(power_status, degree=-1e-9, derivative=True),
        company=True,
    ),
    **{
        f"{name} floor": Check(
            one(function, eigenvalue_floor=FLOOR),
            functools.partial(floored_value, f),
            only_symmetry,
        )
        for name, function, f in (
            ("sqrtm", la.sqrtm, torch.sqrt),
            ("inv_sqrtm", la.inv_sqrtm, torch.rsqrt),
            ("logm", la.logm, torch.log),
            ("powm -0.7", functools.partial(la.powm, exponent=-0.7), lambda lam: lam**-0.7),
        )
    },
    **{
        name: Check(
            call,
            None,
            only_symmetry,
            semidefinite,
            lambda batch: torch.maximum(semidefinite(batch), tiny_gaps(batch)),
        )
        for name, call in {
            "sqrtm half": half,
            **{f"sqrtm {rule}": one(la.sqrtm, rule=rule) for rule in la.RULES},
        }.items()
    },
    **{
        f"eigh {rule}": Check(
            lambda batch, A, rule=rule: tuple(la.eigh(A, rule=la.resolve_rule(rule))),
            eigh_value if rule == "pade" else None,
            eigh_gradient if rule in ("ordinary", "pade") else only_symmetry,
            gradient_status=tiny_gaps,
            company=rule == "pade",
        )
        for rule in la.RULES
    },
    "eigh(A, B=B)": Check(
        lambda batch, A: tuple(la.eigh(A, B=metric(batch.n).to(A).expand_as(A), rule="pade")),
        functools.partial(eigh_value, generalised=True),
        functools.partial(eigh_gradient, generalised=True),
        gradient_status=tiny_gaps,
    ),
    "svd": Check(
        lambda batch, A: tuple(la.svd(A)),
        svd_value,
        gradient_status=tiny_singular_values,
        company=True,
    ),
    "svd full": Check(
        lambda batch, A: tuple(la.svd(A, full_matrices=True, rule="lorentzian")),
        svd_value,
        gradient_status=tiny_singular_values,
    ),
    **{
        f"newton_schulz {k}": Check(
            lambda batch, A, k=k: (la.newton_schulz(A, k).root,),
            functools.partial(schulz_value, k),
            functools.partial(euler, degree=0.5, growth=1.5 ** (2 * k)),
            applies=positive,
        )
        for k in (5, 12)
    },
}
