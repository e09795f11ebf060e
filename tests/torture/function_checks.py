"""Checks of the functions that solve whole problems: polar factors, rotations, subspaces, distances, values.

The matrices of the corpus are symmetric. With their columns in reverse they are general ones, whose singular
values are known: the sizes of the eigenvalues.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import torch
from torch import Tensor

from matrices import symmetric
from rootpool import linalg as la

from .checks import BLUNT, MAY, MUST, Check, Figures, Outputs, Upstream, limit, ratio, size, where
from .corpus import times_power_of_two
from .linalg_checks import (
    MatrixBatch,
    back,
    definite,
    euler,
    exp_along,
    numbers,
    one,
    only_symmetry,
    semidefinite,
    symmetry,
    unit,
)

# --------------------------------------------------------------------------------------------------
# Exponential


def exp_exponent(batch: MatrixBatch) -> Tensor:
    """Of the largest entry of the exponential."""
    return times_power_of_two(batch.lam[:, -1], batch.exponent) / math.log(2)


def moderate(batch: MatrixBatch) -> Tensor:
    """Where torch's own exponential, by squaring, keeps digits to compare with."""
    return times_power_of_two(batch.top, batch.exponent) < 30


def exp_value(batch: MatrixBatch, outputs: Outputs) -> Figures:
    A = batch.input.double()
    expected = torch.linalg.matrix_exp(torch.where(moderate(batch)[:, None, None], A, 0))
    scale = batch.n * batch.eps * (1 + size(A)) * size(expected)
    return where(moderate(batch), {"|F - exp(A)|": ratio(outputs[0].double() - expected, scale)})


def exp_gradient(batch: MatrixBatch, outputs: Outputs, upstream: Upstream, Y: Tensor) -> Figures:
    S = symmetric(upstream[0].double())
    A = torch.where(moderate(batch)[:, None, None], batch.input.double(), 0)
    D = exp_along(A, S)
    scale = batch.n * batch.eps * (1 + size(A)) * size(torch.linalg.matrix_exp(A)) * size(S)
    figures = where(moderate(batch), {"|Y - dexp(A)[S]|": ratio(Y.double() - D, scale)})
    return {**symmetry(batch, Y), **figures}


# --------------------------------------------------------------------------------------------------
# Values alone


def values_value(signed: bool, batch: MatrixBatch, outputs: Outputs) -> Figures:
    lam = batch.lam if signed else batch.lam.abs().sort(descending=True).values
    residual = back(batch, outputs[0], 1) - lam
    return {"|values - lam|": ratio(residual, unit(batch, size(batch.R)))}


# --------------------------------------------------------------------------------------------------
# Polar factors and rotations


def sums(batch: MatrixBatch, proper: bool) -> Tensor:
    """The smallest ``t_i + t_j`` that a derivative divides by; none for a rotation of one dimension."""
    s = batch.lam.abs().sort(-1).values
    if not proper:
        return 2 * s[:, 0]
    if batch.n == 1:
        return torch.full((len(batch),), torch.inf, dtype=torch.float64)
    negative = torch.linalg.slogdet(batch.R.flip(-1)).sign < 0
    return s[:, 1] + torch.where(negative, -s[:, 0], s[:, 0])


def divides_by(least: Tensor, batch: MatrixBatch, sharp: float = 20) -> Tensor:
    """Status of a derivative that divides by a number, which may be round-off."""
    clear = least > sharp * batch.level
    exponent = -(batch.exponent + torch.where(clear, least, 1).clamp_max(1e30).log2())
    return torch.where(clear, limit(exponent, batch, margin=16).clamp_max(MAY), MAY)


def polar_status(proper: bool, batch: MatrixBatch) -> Tensor:
    return divides_by(sums(batch, proper), batch)


def polar_value(proper: bool, batch: MatrixBatch, outputs: Outputs) -> Figures:
    Q, A = outputs[0].double(), batch.R.flip(-1)
    H = Q.mT @ A
    grain = torch.full((len(batch),), batch.n * batch.eps)
    figures = {
        "|QQ'Q - Q|": ratio(Q @ Q.mT @ Q - Q, grain),
        "|H - H'|": ratio(H - H.mT, unit(batch, size(A))),
    }
    if proper:
        determinant = torch.linalg.det(Q)
        return {**figures, "det Q - 1": ratio(numbers(determinant - 1), batch.n * grain)}
    return {**figures, "|QH - A|": ratio(Q @ H - A, unit(batch, size(A)))}


def polar_gradient(batch: MatrixBatch, outputs: Outputs, upstream: Upstream, Y: Tensor) -> Figures:
    """``W = Q'Y`` solves the Lyapunov equation ``H W + W H = Q'S - S'Q``."""
    Q, S, Y = outputs[0].double(), upstream[0].double(), back(batch, Y, -1).flip(-1)
    H, W = symmetric(Q.mT @ batch.R.flip(-1)), Q.mT @ Y
    residual = H @ W + W @ H - (Q.mT @ S - S.mT @ Q)
    return {"|HW + WH - Q'S + S'Q|": ratio(residual, unit(batch, size(H) * size(W), size(S)))}


# --------------------------------------------------------------------------------------------------
# Subspaces


def kept(batch: MatrixBatch) -> int:
    return (batch.n + 1) // 2


def cut_status(values: Tensor, batch: MatrixBatch, sharp: float = 20) -> Tensor:
    """Of the derivative of a subspace: it divides by the gap at the cut, ``values`` being ascending."""
    cut = batch.n - kept(batch)
    if cut == 0:
        return torch.full((len(batch),), MUST)
    return divides_by(values[:, cut] - values[:, cut - 1], batch, sharp)


def projector_value(batch: MatrixBatch, outputs: Outputs) -> Figures:
    P = outputs[0].double()
    grain = torch.full((len(batch),), batch.n * batch.eps)
    trace = P.diagonal(dim1=-2, dim2=-1).sum(-1) - kept(batch)
    return {
        "|PP - P|": ratio(P @ P - P, grain),
        "|PA - AP|": ratio(P @ batch.R - batch.R @ P, unit(batch, size(batch.R))),
        "tr P - k": ratio(numbers(trace), batch.n * grain),
    }


def projector_gradient(
    batch: MatrixBatch, outputs: Outputs, upstream: Upstream, Y: Tensor
) -> Figures:
    """From ``P A = A P``: ``A Y - Y A = P S - S P``."""
    raw, P, S, Y = Y, outputs[0].double(), symmetric(upstream[0].double()), back(batch, Y, -1)
    residual = batch.R @ Y - Y @ batch.R - (P @ S - S @ P)
    scale = unit(batch, 2 * size(batch.R) * size(Y), size(S))
    return {**symmetry(batch, raw), "|AY - YA - PS + SP|": ratio(residual, scale)}


def centred(X: Tensor) -> Tensor:
    return X - X.mean(-2, keepdim=True)


def principal_projector(batch: MatrixBatch, A: Tensor) -> Outputs:
    V = la.principal_subspace(A, kept(batch))
    return (V @ V.mT,)


def principal_status(batch: MatrixBatch) -> Tensor:
    s = torch.linalg.svdvals(centred(batch.R)).flip(-1)
    # The smallest singular value of centred samples is zero, and its vector is divided by none.
    vanishing = s[:, batch.n - kept(batch)] <= 20 * batch.level
    return torch.where(vanishing, MAY, cut_status(s, batch))


def principal_value(batch: MatrixBatch, outputs: Outputs) -> Figures:
    P, X = outputs[0].double(), centred(batch.R)
    grain = torch.full((len(batch),), batch.n * batch.eps)
    C = X.mT @ X
    scale = unit(batch, size(batch.R)) * size(batch.R)
    return {"|PP - P|": ratio(P @ P - P, grain), "|PC - CP|": ratio(P @ C - C @ P, scale)}


# --------------------------------------------------------------------------------------------------
# Functions of singular values


def root_value(batch: MatrixBatch, outputs: Outputs) -> Figures:
    F, A = back(batch, outputs[0], 0.5), batch.R.flip(-1)
    left, right, polar = F @ F.mT, F.mT @ F, A.mT @ F
    scale = unit(batch, size(A), degree=0.5)
    return {
        "|FF'FF' - AA'|": ratio(left @ left - A @ A.mT, scale * size(A)),
        "|F'FF'F - A'A|": ratio(right @ right - A.mT @ A, scale * size(A)),
        "|A'F - F'A|": ratio(polar - polar.mT, scale * size(F)),
    }


LEVEL = 0.3  # of thresholds; no singular value of the corpus is equal to it


def clamped_value(f: Callable[[Tensor], Tensor], batch: MatrixBatch, outputs: Outputs) -> Figures:
    """``U f(S) V'`` number by number; moving A moves it by as much at most."""
    s = times_power_of_two(batch.lam, batch.exponent)
    expected = ((batch.U * (s.sign() * f(s.abs())).unsqueeze(-2)) @ batch.U.mT).flip(-1)
    scale = batch.n * batch.grain(1) * size(s)
    return {"|F - U f(S) V'|": ratio(outputs[0].double() - expected, scale)}


def sum_value(batch: MatrixBatch, outputs: Outputs) -> Figures:
    residual = back(batch, outputs[0], 1) - batch.R.flip(-1)
    return {"|F - A|": ratio(residual, unit(batch, size(batch.R)))}


def sum_gradient(batch: MatrixBatch, outputs: Outputs, upstream: Upstream, Y: Tensor) -> Figures:
    residual = Y.double() - upstream[0].double().flip(-1)
    return {"|Y - S|": ratio(residual, unit(batch, size(Y), degree=0))}


def clamped(batch: MatrixBatch, A: Tensor) -> Outputs:
    """Moreau: what the threshold takes away is what clipping leaves."""
    A = A.flip(-1)
    return (la.singular_value_threshold(A, LEVEL) + la.clip_singular_values(A, LEVEL),)


def truncated_value(batch: MatrixBatch, outputs: Outputs) -> Figures:
    """What is dropped is orthogonal to what is kept, and as small as it can be."""
    F, A = back(batch, outputs[0], 1), batch.R.flip(-1)
    dropped = batch.lam.abs().sort(-1).values[:, : batch.n - kept(batch)]
    scale = unit(batch, size(A))
    return {
        "|F'(A - F)|": ratio(F.mT @ (A - F), scale * size(A)),
        "|F(A - F)'|": ratio(F @ (A - F).mT, scale * size(A)),
        "|A - F| - least": ratio(numbers(size(A - F) - size(dropped)), scale),
    }


def truncated_status(
    batch: MatrixBatch, status: Callable[[Tensor, MatrixBatch], Tensor] = cut_status
) -> Tensor:
    s = batch.lam.abs().sort(-1).values
    vanishing = s[:, batch.n - kept(batch)] <= 20 * batch.level
    return torch.where(vanishing, MAY, status(s, batch))


def by_one(call: Callable[[Tensor], Tensor]) -> Callable[..., Outputs]:
    """Of what takes a single matrix."""
    return lambda batch, A: (torch.stack([call(a, kept(batch)) for a in A]),)


def top_projector(A: Tensor, k: int) -> Tensor:
    U = la.topk_eigh(A, k).eigenvectors
    return U @ U.mT


def top_status(values: Tensor, batch: MatrixBatch) -> Tensor:
    """Where a gradient is wanted, a cut inside a multiplet is an error of the value."""
    doubtful = batch.exponent < -(batch.largest - 16)
    # Lanczos may miss copies of repeated values.
    doubtful |= (values.diff(dim=-1) <= batch.level[:, None]).sum(-1) > 2
    return torch.where(doubtful, MAY, cut_status(values, batch, sharp=1e11))


def top_part(A: Tensor, k: int) -> Tensor:
    U, S, Vh = la.topk_svd(A.flip(-1), k)
    return (U * S) @ Vh


# --------------------------------------------------------------------------------------------------
# Null vectors and alignment


def null_projector(batch: MatrixBatch, A: Tensor) -> Outputs:
    N = la.null_vectors(A.flip(-1), batch.n - kept(batch))
    return (N @ N.mT,)


def null_value(batch: MatrixBatch, outputs: Outputs) -> Figures:
    P, C = outputs[0].double(), (batch.R @ batch.R).flip(-2, -1)
    grain = torch.full((len(batch),), batch.n * batch.eps)
    scale = unit(batch, size(batch.R)) * size(batch.R)
    return {"|PP - P|": ratio(P @ P - P, grain), "|PC - CP|": ratio(P @ C - C @ P, scale)}


def null_gradient(batch: MatrixBatch, outputs: Outputs, upstream: Upstream, Y: Tensor) -> Figures:
    """Nothing changes when rows are turned, so that ``Y A'`` is symmetric."""
    turn = back(batch, Y, -1) @ batch.R
    scale = unit(batch, size(batch.R) * size(back(batch, Y, -1)), size(upstream[0]), degree=0)
    return {"|YA' - AY'|": ratio(turn - turn.mT, scale)}


def turning(n: int) -> Tensor:
    """A rotation by a cycle of the axes, and a half turn where that alone is a reflection."""
    Q = torch.eye(n, dtype=torch.float64).roll(1, 0)
    Q[0] *= 1 if n % 2 else -1
    return Q


def motion(batch: MatrixBatch, A: Tensor) -> Outputs:
    found = la.align(A, A @ turning(batch.n).to(A).mT)
    return found.rotation, found.translation


def motion_value(batch: MatrixBatch, outputs: Outputs) -> Figures:
    """A rotation that leaves no more than rounding of the sum of squares."""
    R, X, t = outputs[0].double(), batch.R, back(batch, outputs[1], 1)
    eye, grain = torch.eye(batch.n), torch.full((len(batch),), batch.n * batch.eps)
    apart = size(X @ R.mT + t.unsqueeze(-2) - X @ turning(batch.n).mT).square()
    return {
        "|R'R - I|": ratio(R.mT @ R - eye, grain),
        "det R - 1": ratio(numbers(torch.linalg.det(R) - 1), batch.n * grain),
        "|Y - RX - t|^2": ratio(numbers(apart), unit(batch, size(X)) * size(X)),
    }


def motion_status(batch: MatrixBatch) -> Tensor:
    small = 2 * batch.exponent < batch.smallest + 100
    return torch.where(small, MAY, squares_fit(batch))


def motion_gradient_status(batch: MatrixBatch) -> Tensor:
    s = torch.linalg.svdvals(centred(batch.R)).flip(-1)
    open_to_rounding = s[:, 1] ** 2 <= 1e4 * batch.level * s[:, -1]
    return torch.where(open_to_rounding, MAY, motion_status(batch))


# --------------------------------------------------------------------------------------------------
# Distances and correlations: in tests/linalg to fifty digits, here only finite at every scale


def two_covariances(batch: MatrixBatch, A: Tensor) -> Outputs:
    return (numbers(la.bures_wasserstein(A, A.flip(-2, -1))),)


def bures_status(batch: MatrixBatch) -> Tensor:
    return torch.maximum(semidefinite(batch), limit(batch.exponent.double(), batch, margin=16))


def affine(batch: MatrixBatch, A: Tensor) -> Outputs:
    return (numbers(la.affine_invariant_distance(A, A.flip(-2, -1))),)


def affine_status(batch: MatrixBatch) -> Tensor:
    """Conditions multiply, and the inverse of one matrix is multiplied by the other one."""
    doubtful = batch.n * batch.eps * batch.condition.square() > BLUNT
    doubtful |= batch.exponent.abs() > batch.largest / 2
    return torch.where(doubtful, MAY, definite(batch).clamp_max(MAY))


def affine_value(batch: MatrixBatch, outputs: Outputs) -> Figures:
    L = torch.linalg.cholesky_ex(batch.R.flip(-2, -1))[0]
    C = torch.linalg.solve_triangular(L, batch.R, upper=False)
    C = torch.linalg.solve_triangular(L, C.mT, upper=False)
    logarithms = torch.linalg.eigvalsh(C).log()
    scale = batch.n * batch.eps * batch.condition.square() * (1 + logarithms.abs().sum(-1))
    residual = outputs[0].double() - numbers(logarithms.square().sum(-1))
    return where(scale < BLUNT, {"d2 - sum log2": ratio(residual, scale)})


def affine_gradient(batch: MatrixBatch, outputs: Outputs, upstream: Upstream, Y: Tensor) -> Figures:
    """It does not change with the scale."""
    Y = back(batch, Y, -1)
    scale = unit(batch, size(Y) * size(batch.R), degree=-1) * batch.condition.square()
    return {"<Y, A>": ratio(numbers((Y * batch.R).flatten(1).sum(1)), scale)}


def two_sets(batch: MatrixBatch, A: Tensor) -> Outputs:
    return (numbers(la.frechet_distance(A, A.flip(-1))),)


def several(batch: MatrixBatch) -> Tensor:
    return torch.full((len(batch),), batch.n > 1)


def squares_fit(batch: MatrixBatch) -> Tensor:
    return limit(2 * batch.exponent.double(), batch, margin=24).clamp_max(MAY)


RIDGE = 1e-3


def correlations(batch: MatrixBatch, A: Tensor) -> Outputs:
    return (la.canonical_correlations(A, A.flip(-1), RIDGE),)


def correlations_status(batch: MatrixBatch) -> Tensor:
    """The ridge has units: elsewhere the variances are nothing beside it, or it beside them."""
    return torch.where(batch.exponent == 0, MUST, MAY)


# --------------------------------------------------------------------------------------------------
# The table

FUNCTION_CHECKS = {
    "expm": Check(
        one(la.expm),
        exp_value,
        exp_gradient,
        lambda batch: limit(exp_exponent(batch), batch),
        lambda batch: limit(exp_exponent(batch), batch).clamp_max(MAY),
    ),
    "eigvalsh": Check(one(la.eigvalsh), functools.partial(values_value, True), euler, company=True),
    "svdvals": Check(
        lambda batch, A: (la.svdvals(A.flip(-1)),), functools.partial(values_value, False), euler
    ),
    **{
        name: Check(
            lambda batch, A, call=call: (call(A.flip(-1)),),
            functools.partial(polar_value, proper),
            polar_gradient,
            gradient_status=functools.partial(polar_status, proper),
        )
        for name, call, proper in (
            ("orthogonalize", la.orthogonalize, False),
            ("rotation", la.rotation, True),
        )
    },
    "leading_projector": Check(
        lambda batch, A: (la.leading_projector(A, kept(batch)),),
        projector_value,
        projector_gradient,
        gradient_status=lambda batch: cut_status(batch.lam, batch),
        company=True,
    ),
    "principal_subspace": Check(
        principal_projector, principal_value, None, gradient_status=principal_status
    ),
    "singular_value_function": Check(
        lambda batch, A: (la.singular_value_function(A.flip(-1), "sqrt"),),
        root_value,
        functools.partial(euler, degree=0.5),
        applies=lambda batch: batch.grain(1) < 2 * batch.eps,
    ),
    **{
        name: Check(
            lambda batch, A, call=call: (call(A.flip(-1), LEVEL),),
            functools.partial(clamped_value, f),
        )
        for name, call, f in (
            ("singular_value_threshold", la.singular_value_threshold, lambda s: (s - LEVEL).relu()),
            ("clip_singular_values", la.clip_singular_values, lambda s: s.clamp_max(LEVEL)),
        )
    },
    "threshold + clip": Check(clamped, sum_value, sum_gradient),
    "topk_eigh": Check(
        by_one(top_projector),
        projector_value,
        projector_gradient,
        *[lambda batch: top_status(batch.lam, batch)] * 2,
    ),
    **{
        name: Check(call, truncated_value, euler, *statuses)
        for name, call, *statuses in (
            (
                "low_rank",
                lambda batch, A: (la.low_rank(A.flip(-1), kept(batch)),),
                None,
                truncated_status,
            ),
            (
                "topk_svd",
                by_one(top_part),
                *[functools.partial(truncated_status, status=top_status)] * 2,
            ),
        )
    },
    "null_vectors": Check(
        null_projector, null_value, null_gradient, gradient_status=truncated_status, applies=several
    ),
    "align": Check(
        motion, motion_value, None, motion_status, motion_gradient_status, applies=several
    ),
    "affine_invariant_distance": Check(affine, affine_value, affine_gradient, affine_status),
    "bures_wasserstein": Check(two_covariances, None, only_symmetry, bures_status),
    "frechet_distance": Check(two_sets, None, None, squares_fit, squares_fit, applies=several),
    "canonical_correlations": Check(
        correlations, None, None, correlations_status, correlations_status, applies=several
    ),
}
