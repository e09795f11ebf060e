"""Checks of the functions that solve whole problems: polar factors, rotations, subspaces, distances, values.

The matrices of the corpus are symmetric. With their columns in reverse they are general ones, whose singular
values are known: the sizes of the eigenvalues.
"""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor

from matrices import symmetric
from rootpool.linalg import (
    bures_wasserstein,
    canonical_correlations,
    eigvalsh,
    expm,
    frechet_distance,
    leading_projector,
    orthogonalize,
    principal_subspace,
    rotation,
    svdvals,
)

from .checks import MAY, MUST, Check, Figures, Outputs, Upstream, limit, ratio, size, where
from .corpus import times_power_of_two
from .linalg_checks import (
    MatrixBatch,
    back,
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


def divides_by(least: Tensor, batch: MatrixBatch) -> Tensor:
    """Status of a derivative that divides by a number, which may be round-off."""
    clear = least > 20 * batch.level
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


def cut_status(values: Tensor, batch: MatrixBatch) -> Tensor:
    """Of the derivative of a subspace: it divides by the gap at the cut, ``values`` being ascending."""
    cut = batch.n - kept(batch)
    if cut == 0:
        return torch.full((len(batch),), MUST)
    return divides_by(values[:, cut] - values[:, cut - 1], batch)


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
    V = principal_subspace(A, kept(batch))
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
# Distances and correlations: in tests/linalg to fifty digits, here only finite at every scale


def two_covariances(batch: MatrixBatch, A: Tensor) -> Outputs:
    return (numbers(bures_wasserstein(A, A.flip(-2, -1))),)


def bures_status(batch: MatrixBatch) -> Tensor:
    return torch.maximum(semidefinite(batch), limit(batch.exponent.double(), batch, margin=16))


def two_sets(batch: MatrixBatch, A: Tensor) -> Outputs:
    return (numbers(frechet_distance(A, A.flip(-1))),)


def several(batch: MatrixBatch) -> Tensor:
    return torch.full((len(batch),), batch.n > 1)


def squares_fit(batch: MatrixBatch) -> Tensor:
    return limit(2 * batch.exponent.double(), batch, margin=24).clamp_max(MAY)


RIDGE = 1e-3


def correlations(batch: MatrixBatch, A: Tensor) -> Outputs:
    return (canonical_correlations(A, A.flip(-1), RIDGE),)


def correlations_status(batch: MatrixBatch) -> Tensor:
    """The ridge has units: elsewhere the variances are nothing beside it, or it beside them."""
    return torch.where(batch.exponent == 0, MUST, MAY)


# --------------------------------------------------------------------------------------------------
# The table

FUNCTION_CHECKS = {
    "expm": Check(
        one(expm),
        exp_value,
        exp_gradient,
        lambda batch: limit(exp_exponent(batch), batch),
        lambda batch: limit(exp_exponent(batch), batch).clamp_max(MAY),
    ),
    "eigvalsh": Check(one(eigvalsh), functools.partial(values_value, True), euler, company=True),
    "svdvals": Check(
        lambda batch, A: (svdvals(A.flip(-1)),), functools.partial(values_value, False), euler
    ),
    "orthogonalize": Check(
        lambda batch, A: (orthogonalize(A.flip(-1)),),
        functools.partial(polar_value, False),
        polar_gradient,
        gradient_status=functools.partial(polar_status, False),
    ),
    "rotation": Check(
        lambda batch, A: (rotation(A.flip(-1)),),
        functools.partial(polar_value, True),
        polar_gradient,
        gradient_status=functools.partial(polar_status, True),
    ),
    "leading_projector": Check(
        lambda batch, A: (leading_projector(A, kept(batch)),),
        projector_value,
        projector_gradient,
        gradient_status=lambda batch: cut_status(batch.lam, batch),
        company=True,
    ),
    "principal_subspace": Check(
        principal_projector, principal_value, None, gradient_status=principal_status
    ),
    "bures_wasserstein": Check(two_covariances, None, only_symmetry, bures_status),
    "frechet_distance": Check(two_sets, None, None, squares_fit, squares_fit, applies=several),
    "canonical_correlations": Check(
        correlations, None, None, correlations_status, correlations_status, applies=several
    ),
}
