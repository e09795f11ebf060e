"""Slow, obvious answers that share no code and no formula with the library."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import mpmath
import torch
from torch import Tensor

mpmath.mp.dps = 50

# Functions of a number, which make functions of a matrix.
MATRIX_FUNCTIONS = {
    "sqrt": mpmath.sqrt,
    "inv_sqrt": lambda x: 1 / mpmath.sqrt(x),
    "log": mpmath.log,
    "power 0.3": lambda x: x ** mpmath.mpf(0.3),
    "power -0.7": lambda x: x ** mpmath.mpf(-0.7),
}
STEP = mpmath.mpf(2) ** -40  # of differences in 80 digits: they are wrong by about its square


def derivatives(name: str, A: Tensor, direction: Tensor) -> list[Tensor]:
    """``f(A)``, and its derivative along a symmetric direction, to 20 digits."""
    f = MATRIX_FUNCTIONS[name]
    with mpmath.workdps(80):
        A, step = digits(A), STEP * digits(direction)
        results = [function(A, f), (function(A + step, f) - function(A - step, f)) / (2 * STEP)]
        rows = [[[float(x) for x in row] for row in F.tolist()] for F in results]
        return [torch.tensor(F, dtype=torch.float64) for F in rows]


def central_difference(f, x: Tensor, direction: Tensor, step: float = 1e-6) -> Tensor:
    """Directional derivative of ``f`` at ``x`` by central differences."""
    return (f(x + step * direction) - f(x - step * direction)) / (2 * step)


# --------------------------------------------------------------------------------------------------
# Losses of matrices in many digits, and their gradients by differences: nothing to derive, nothing to share


def digits(A: Tensor) -> mpmath.matrix:
    """``A`` ``(m, n)``, real or complex, as a matrix of mpmath."""
    return mpmath.matrix([[mpmath.mpmathify(entry) for entry in row] for row in A.tolist()])


def value(loss, *inputs: Tensor) -> float:
    """``loss``, from matrices of mpmath to a number, in 80 digits."""
    with mpmath.workdps(80):
        return float(loss(*map(digits, inputs)))


def slope(loss, inputs: Sequence[Tensor], directions: Sequence[Tensor]) -> float:
    """Derivative of ``loss`` along directions, to some 20 digits."""
    with mpmath.workdps(80):
        pairs = [(digits(A), digits(V)) for A, V in zip(inputs, directions, strict=True)]
        ahead, behind = (loss(*(A + h * V for A, V in pairs)) for h in (STEP, -STEP))
        return float((ahead - behind) / (2 * STEP))


def curvature(loss, A: Tensor, V: Tensor, W: Tensor) -> float:
    """Second derivative of ``loss`` at ``A`` along two directions, to some 20 digits."""
    with mpmath.workdps(80):
        A, V, W = (digits(X) for X in (A, V, W))
        ends = [(a * b, A + STEP * (a * V + b * W)) for a in (1, -1) for b in (1, -1)]
        return float(sum(sign * loss(end) for sign, end in ends) / (4 * STEP**2))


def weighted(W: Tensor, F: mpmath.matrix) -> mpmath.mpf:
    """The real part of ``sum conj(W) * F``."""
    entries = itertools.product(range(F.rows), range(F.cols))
    return mpmath.re(mpmath.fsum(mpmath.conj(W[i, j].item()) * F[i, j] for i, j in entries))


def polar_factor(A: mpmath.matrix) -> mpmath.matrix:
    U, _, V = mpmath.svd(A)
    return U * V


def nearest_rotation(A: mpmath.matrix) -> mpmath.matrix:
    U, _, V = mpmath.svd_r(A)
    if mpmath.det(U * V) < 0:
        U[:, U.cols - 1] = -U[:, U.cols - 1]
    return U * V


def projector(A: mpmath.matrix, k: int) -> mpmath.matrix:
    _, U = mpmath.eigh(A)
    leading = U[:, A.rows - k :]
    return leading * leading.H


def singular_function(A: mpmath.matrix, f) -> mpmath.matrix:
    """``U f(S) V^H``; ``f`` maps the list of singular values, descending, to another one."""
    U, s, V = mpmath.svd(A)
    return U * mpmath.diag(f(list(s))) * V


def singular_values(A: mpmath.matrix) -> list[mpmath.mpf]:
    return list(mpmath.svd(A, compute_uv=False))


def power(A: mpmath.matrix, exponent: float) -> mpmath.matrix:
    """Of a semi-definite matrix; negative eigenvalues are rounding."""
    return function(A, lambda x: max(x, mpmath.mpf(0)) ** mpmath.mpf(exponent))


def function(A: mpmath.matrix, f) -> mpmath.matrix:
    lam, U = mpmath.eigh(A)
    return U * mpmath.diag(list(map(f, lam))) * U.H


def bures(A: mpmath.matrix, B: mpmath.matrix) -> mpmath.mpf:
    root = power(A, 0.5)
    cross = power(root * B * root, 0.5)
    return mpmath.re(sum(A[i, i] + B[i, i] - 2 * cross[i, i] for i in range(A.rows)))


def centred(X: mpmath.matrix) -> tuple[mpmath.matrix, mpmath.matrix]:
    """Rows around their mean, and the mean."""
    mean = mpmath.matrix(
        [[mpmath.fsum(X[i, j] for i in range(X.rows)) / X.rows for j in range(X.cols)]]
    )
    rows = mpmath.matrix(X.rows, X.cols)
    for i, j in itertools.product(range(X.rows), range(X.cols)):
        rows[i, j] = X[i, j] - mean[0, j]
    return rows, mean


def frechet(X: mpmath.matrix, Y: mpmath.matrix) -> mpmath.mpf:
    (X, mean_X), (Y, mean_Y) = centred(X), centred(Y)
    apart = mpmath.fsum(abs(mean_X[0, j] - mean_Y[0, j]) ** 2 for j in range(X.cols))
    return apart + bures(X.H * X / (X.rows - 1), Y.H * Y / (Y.rows - 1))


def correlations(X: mpmath.matrix, Y: mpmath.matrix, ridge: float) -> list[mpmath.mpf]:
    (X, _), (Y, _) = centred(X), centred(Y)
    N = X.rows - 1
    roots = [power(Z.H * Z / N + mpmath.mpf(ridge) * mpmath.eye(Z.cols), -0.5) for Z in (X, Y)]
    return singular_values(roots[0] * (X.H * Y / N) * roots[1])
