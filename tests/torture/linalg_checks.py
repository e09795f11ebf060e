"""Checks of every function of ``rootpool.linalg`` on symmetric matrices."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from matrices import symmetric
from rootpool.linalg import (
    RULES,
    eigh,
    from_triangle,
    inv_sqrtm,
    logm,
    newton_schulz,
    powm,
    resolve_rule,
    sqrtm,
    svd,
    to_triangle,
    triangle_weights,
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
    status = torch.full((len(batch),), MUST)
    status[least < -batch.level / 2] = MAY
    status[least < -10 * batch.level] = ERROR
    return status


def definite(batch: MatrixBatch) -> Tensor:
    least = batch.lam[:, 0]
    status = torch.full((len(batch),), MUST)
    status[least <= 10 * batch.level] = MAY
    status[least <= batch.level / 10] = ERROR
    return status


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


def eigh_value(batch: MatrixBatch, outputs: Outputs) -> Figures:
    lam, U = back(batch, outputs[0], 1), outputs[1].double()
    eye = torch.eye(batch.n, dtype=torch.float64)
    residual = batch.R @ U - U * lam.unsqueeze(-2)
    return {
        "|AU - U lam|": ratio(residual, unit(batch, size(batch.R))),
        "|U'U - I|": ratio(U.mT @ U - eye, torch.full((len(batch),), batch.n * batch.eps)),
        "ascending": torch.where((lam.diff(dim=-1) >= 0).all(-1), 0.0, torch.inf),
    }


def eigh_gradient(batch: MatrixBatch, outputs: Outputs, upstream: Upstream, Y: Tensor) -> Figures:
    """``(U'YU)_ij (lam_j - lam_i) = skew(U' dU)_ij``, and ``dlam`` on the diagonal."""
    lam, U = back(batch, outputs[0], 1), outputs[1].double()
    M = U.mT @ back(batch, Y, -1) @ U
    C = U.mT @ upstream[1].double()
    skew = (C - C.mT) / 2
    gap = lam.unsqueeze(-2) - lam.unsqueeze(-1)
    residual = torch.where(gap == 0, 0, M * gap - skew)
    figures = symmetry(batch, Y)
    figures["|K dU - dA|"] = ratio(residual, unit(batch, size(M) * batch.top, size(C), degree=0))
    return figures


def sqrt_value(batch: MatrixBatch, outputs: Outputs) -> Figures:
    Q = back(batch, outputs[0], 0.5)
    return {"|QQ - A|": ratio(Q @ Q - batch.R, unit(batch, size(batch.R)))}


def sqrt_gradient(batch: MatrixBatch, outputs: Outputs, upstream: Upstream, Y: Tensor) -> Figures:
    """The gradient solves ``Q Y + Y Q = S``, a Lyapunov equation."""
    raw, Q, Y = Y, back(batch, outputs[0], 0.5), back(batch, Y, -0.5)
    S = tangent(Q, symmetric(upstream[0].double()), batch.eps)
    return {
        **symmetry(batch, raw),
        "|QY + YQ - S|": ratio(
            Q @ Y + Y @ Q - S, unit(batch, 2 * size(Q) * size(Y), size(S), degree=0)
        ),
    }


def inv_sqrt_value(batch: MatrixBatch, outputs: Outputs) -> Figures:
    Z, eye = back(batch, outputs[0], -0.5), torch.eye(batch.n, dtype=torch.float64)
    scale = unit(batch, batch.condition)
    return where(scale < BLUNT, {"|ZAZ - I|": ratio(Z @ batch.R @ Z - eye, scale)})


def inv_sqrt_gradient(
    batch: MatrixBatch, outputs: Outputs, upstream: Upstream, Y: Tensor
) -> Figures:
    raw, Z, Y, S = (
        Y,
        back(batch, outputs[0], -0.5),
        back(batch, Y, -1.5),
        symmetric(upstream[0].double()),
    )
    residual = Y @ Z + Z @ Y + Z @ Z @ S @ Z @ Z
    scale = unit(batch, 2 * size(Z) * size(Y), size(Z) ** 4 * size(S), degree=-1.5)
    return {**symmetry(batch, raw), "|YZ + ZY + ZZSZZ|": ratio(residual, scale)}


def _log_of(batch: MatrixBatch, L: Tensor) -> tuple[Tensor, Tensor]:
    shift = batch.exponent.double() * math.log(2)
    eye = torch.eye(batch.n, dtype=torch.float64)
    return L.double() - shift[:, None, None] * eye, 1 + size(L)


def log_value(batch: MatrixBatch, outputs: Outputs) -> Figures:
    L, length = _log_of(batch, outputs[0])
    residual = torch.linalg.matrix_exp(L) - batch.R
    return {"|exp(L) - A|": ratio(residual, unit(batch, length * size(batch.R)))}


def log_gradient(batch: MatrixBatch, outputs: Outputs, upstream: Upstream, Y: Tensor) -> Figures:
    """``exp [[L, Y], [0, L]]`` has the derivative of exp along Y above: it must be S."""
    L, length = _log_of(batch, outputs[0])
    raw, Y = Y, back(batch, Y, -1)
    n, strength = batch.n, size(Y)
    block = torch.zeros(len(batch), 2 * n, 2 * n, dtype=torch.float64)
    block[:, :n, :n] = block[:, n:, n:] = L
    block[:, :n, n:] = Y / strength[:, None, None]
    D = torch.linalg.matrix_exp(block)[:, :n, n:] * strength[:, None, None]
    scale = unit(batch, length * strength * size(batch.R), degree=0)
    return {
        **symmetry(batch, raw),
        "|dexp(L)[Y] - S|": ratio(D - symmetric(upstream[0].double()), scale),
    }


def third_value(batch: MatrixBatch, outputs: Outputs) -> Figures:
    F = back(batch, outputs[0], 1 / 3)
    scale = unit(batch, size(batch.R)) * _length(batch)
    return {"|FFF - A|": ratio(F @ F @ F - batch.R, scale)}


def _length(batch: MatrixBatch) -> Tensor:
    """The exponent is not exactly a third: that is felt in proportion to the logarithm."""
    return 1 + batch.exponent.abs().double()


def third_gradient(batch: MatrixBatch, outputs: Outputs, upstream: Upstream, Y: Tensor) -> Figures:
    raw, F, Y = Y, back(batch, outputs[0], 1 / 3), back(batch, Y, -2 / 3)
    S = tangent(F, symmetric(upstream[0].double()), batch.eps)
    residual = F @ F @ Y + F @ Y @ F + Y @ F @ F - S
    scale = unit(batch, 3 * size(F) ** 2 * size(Y), size(S), degree=0) * _length(batch)
    return {**symmetry(batch, raw), "|FFY + FYF + YFF - S|": ratio(residual, scale)}


def square_value(batch: MatrixBatch, outputs: Outputs) -> Figures:
    residual = back(batch, outputs[0], 2) - batch.R @ batch.R
    return {"|F - AA|": ratio(residual, unit(batch, size(batch.R) ** 2, degree=2))}


def square_gradient(batch: MatrixBatch, outputs: Outputs, upstream: Upstream, Y: Tensor) -> Figures:
    raw, S, Y = Y, symmetric(upstream[0].double()), back(batch, Y, 1)
    scale = unit(batch, 2 * size(batch.R) * size(S))
    return {**symmetry(batch, raw), "|Y - AS - SA|": ratio(Y - batch.R @ S - S @ batch.R, scale)}


def inverse_value(batch: MatrixBatch, outputs: Outputs) -> Figures:
    F, eye = back(batch, outputs[0], -1), torch.eye(batch.n, dtype=torch.float64)
    scale = unit(batch, size(batch.R) * size(F), degree=-1)
    return {"|AF - I|": ratio(batch.R @ F - eye, scale)}


def inverse_gradient(
    batch: MatrixBatch, outputs: Outputs, upstream: Upstream, Y: Tensor
) -> Figures:
    raw, S, Y = Y, symmetric(upstream[0].double()), back(batch, Y, -2)
    scale = unit(batch, size(batch.R) ** 2 * size(Y), size(S), degree=-2)
    return {**symmetry(batch, raw), "|AYA + S|": ratio(batch.R @ Y @ batch.R + S, scale)}


FLOOR = 1e-3


def floored_value(batch: MatrixBatch, outputs: Outputs) -> Figures:
    lam = times_power_of_two(batch.lam, batch.exponent).clamp_min(FLOOR)
    raised = (batch.U * lam.unsqueeze(-2)) @ batch.U.mT
    top = size(raised)[:, None, None]
    Q = outputs[0].double() / top.sqrt()
    return {
        "|QQ - max(A, floor)|": ratio(
            Q @ Q - raised / top, unit(batch, batch.top * 0 + 1, degree=0)
        )
    }


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


def schulz_gradient(
    iterations: int, batch: MatrixBatch, outputs: Outputs, upstream: Upstream, Y: Tensor
) -> Figures:
    """Against torch's derivative of the iteration written out, in float64 and without the scale."""
    R = batch.R.clone().requires_grad_()
    trace = R.diagonal(dim1=-2, dim2=-1).sum(-1)[:, None, None]
    trace = torch.where(trace == 0, 1, trace)
    X, Z = R / trace, torch.eye(batch.n, dtype=torch.float64).expand_as(R)
    for _ in range(iterations):
        T = 1.5 * torch.eye(batch.n, dtype=torch.float64) - 0.5 * Z @ X
        X, Z = X @ T, T @ Z
    (expected,) = torch.autograd.grad(X * trace.sqrt(), R, upstream[0].double())
    # A scale of its own: the root of a zero matrix is linear.
    zero = (batch.R == 0).flatten(1).all(1)
    got = torch.where(zero[:, None, None], Y.double(), back(batch, Y, -0.5))
    growth = 1.5 ** (2 * iterations)
    return {
        "|Y - Y by torch|": ratio(got - expected, growth * unit(batch, size(expected), degree=0))
    }


def svd_value(batch: MatrixBatch, outputs: Outputs) -> Figures:
    U, s, V = outputs[0].double(), back(batch, outputs[1], 1), outputs[2].double().mT
    eye = torch.eye(s.shape[-1], dtype=torch.float64)
    orthogonal = torch.full((len(batch),), max(batch.R.shape[-2:]) * batch.eps)
    return {
        "|A - USV'|": ratio((U * s.unsqueeze(-2)) @ V.mT - batch.R, unit(batch, size(batch.R))),
        "|U'U - I|": ratio(U.mT @ U - eye, orthogonal),
        "|V'V - I|": ratio(V.mT @ V - eye, orthogonal),
    }


def triangle_value(batch: MatrixBatch, outputs: Outputs) -> Figures:
    t = outputs[0]
    same = torch.where((from_triangle(t) == batch.input).flatten(1).all(1), 0.0, torch.inf)
    w = triangle_weights(batch.n, dtype=torch.float64) * back(batch, t, 1)
    gap = ((w * w).sum(-1) - batch.R.square().sum((-2, -1))).unsqueeze(-1)
    return {"round trip": same, "<A, A>": ratio(gap, unit(batch, size(batch.R) ** 2))}


# --------------------------------------------------------------------------------------------------
# The table


def one(function: Callable[..., Tensor], **options: object) -> Callable[..., Outputs]:
    return lambda batch, A: (function(A, **options),)


def power_check(
    call: Callable[..., Outputs],
    degree: float,
    value: Callable,
    gradient: Callable,
) -> Check:
    return Check(
        call,
        value,
        gradient,
        functools.partial(power_status, degree=degree),
        functools.partial(power_status, degree=degree, derivative=True),
        company=True,
    )


def only_symmetry(batch: MatrixBatch, outputs: Outputs, upstream: Upstream, Y: Tensor) -> Figures:
    return symmetry(batch, Y)


def half(batch: MatrixBatch, A: Tensor) -> Outputs:
    return (sqrtm(A, keep_largest=(batch.n + 1) // 2),)


MATRIX_CHECKS = {
    "sqrtm": power_check(one(sqrtm), 0.5, sqrt_value, sqrt_gradient),
    "inv_sqrtm": power_check(one(inv_sqrtm), -0.5, inv_sqrt_value, inv_sqrt_gradient),
    "logm": Check(
        one(logm),
        log_value,
        log_gradient,
        definite,
        functools.partial(power_status, degree=-1e-9, derivative=True),
        company=True,
    ),
    "powm 1/3": power_check(one(powm, exponent=1 / 3), 1 / 3, third_value, third_gradient),
    "powm 2": power_check(one(powm, exponent=2), 2, square_value, square_gradient),
    "powm -1": power_check(one(powm, exponent=-1), -1, inverse_value, inverse_gradient),
    "sqrtm floor": Check(one(sqrtm, eigenvalue_floor=FLOOR), floored_value, only_symmetry),
    "inv_sqrtm floor": Check(one(inv_sqrtm, eigenvalue_floor=FLOOR), None, only_symmetry),
    "logm floor": Check(one(logm, eigenvalue_floor=FLOOR), None, only_symmetry),
    "powm -0.7 floor": Check(one(powm, exponent=-0.7, eigenvalue_floor=FLOOR), None, only_symmetry),
    "sqrtm half": Check(
        half,
        None,
        only_symmetry,
        semidefinite,
        lambda batch: torch.maximum(semidefinite(batch), tiny_gaps(batch)),
    ),
    **{
        f"sqrtm {rule}": Check(
            one(sqrtm, rule=rule),
            None,
            only_symmetry,
            semidefinite,
            lambda batch: torch.maximum(semidefinite(batch), tiny_gaps(batch)),
        )
        for rule in RULES
    },
    **{
        f"eigh {rule}": Check(
            lambda batch, A, rule=rule: tuple(eigh(A, rule=resolve_rule(rule))),
            eigh_value if rule == "pade" else None,
            eigh_gradient if rule in ("ordinary", "pade") else only_symmetry,
            gradient_status=tiny_gaps,
            company=rule == "pade",
        )
        for rule in RULES
    },
    "svd": Check(
        lambda batch, A: tuple(svd(A)),
        svd_value,
        gradient_status=tiny_singular_values,
        company=True,
    ),
    "svd full": Check(
        lambda batch, A: tuple(svd(A, full_matrices=True, rule="lorentzian")),
        svd_value,
        gradient_status=tiny_singular_values,
    ),
    **{
        f"newton_schulz {k}": Check(
            lambda batch, A, k=k: (newton_schulz(A, k).root,),
            functools.partial(schulz_value, k),
            functools.partial(schulz_gradient, k),
            applies=positive,
        )
        for k in (5, 12)
    },
    "triangle": Check(lambda batch, A: (to_triangle(A),), triangle_value),
}
