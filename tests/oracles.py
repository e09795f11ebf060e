"""Slow, obvious answers that share no code and no formula with the library."""

from __future__ import annotations

import itertools

import mpmath
import torch
from torch import Tensor

mpmath.mp.dps = 50

# f(X) for a general square X, by algorithms that know nothing of eigenvalues.
MATRIX_FUNCTIONS = {
    "sqrt": mpmath.sqrtm,
    "inv_sqrt": lambda X: mpmath.sqrtm(X) ** -1,
    "log": mpmath.logm,
    "power 0.3": lambda X: mpmath.expm(mpmath.logm(X) * mpmath.mpf(0.3)),
    "power -0.7": lambda X: mpmath.expm(mpmath.logm(X) * mpmath.mpf(-0.7)),
}


def value_and_derivative(name: str, A: Tensor, E: Tensor) -> tuple[Tensor, Tensor]:
    """``f(A)`` and its derivative along ``E`` in 50 digits.

    ``f([[A, E], [0, A]]) = [[f(A), df(A)[E]], [0, f(A)]]`` (Higham 2008, theorem 3.6). The derivative
    of a function of symmetric matrices is self-adjoint, so ``df(A)[G]`` is the gradient too.
    """
    n = A.shape[-1]
    block = mpmath.zeros(2 * n)
    for i in range(n):
        for j in range(n):
            block[i, j] = block[n + i, n + j] = mpmath.mpmathify(A[i, j].item())
            block[i, n + j] = mpmath.mpmathify(E[i, j].item())
    F = MATRIX_FUNCTIONS[name](block)

    def part(row: int, column: int) -> Tensor:
        entries = [[complex(F[row + i, column + j]) for j in range(n)] for i in range(n)]
        result = torch.tensor(entries, dtype=torch.complex128)
        return result if A.is_complex() else result.real.clone()

    return part(0, 0), part(0, n)


def taylor_kernel(lam: Tensor, degree: int) -> Tensor:
    """The kernel of Taylor's rule for positive eigenvalues, term by term in 50 digits."""
    n = lam.shape[-1]
    K = torch.zeros(n, n, dtype=torch.float64)
    for i in range(n):
        for j in range(i):
            a, b = (mpmath.mpf(max(lam[i], lam[j]).item()), mpmath.mpf(min(lam[i], lam[j]).item()))
            total = sum((b / a) ** k for k in range(degree + 1)) / a
            K[i, j] = float(total) if lam[i] >= lam[j] else -float(total)
            K[j, i] = -K[i, j]
    return K


def central_difference(f, x: Tensor, direction: Tensor, step: float = 1e-6) -> Tensor:
    """Directional derivative of ``f`` at ``x`` by central differences."""
    return (f(x + step * direction) - f(x - step * direction)) / (2 * step)


# --------------------------------------------------------------------------------------------------
# Losses of matrices in many digits, and their gradients by differences: nothing to derive, nothing to share


def digits(A: Tensor) -> mpmath.matrix:
    """``A`` ``(m, n)``, real or complex, as a matrix of mpmath."""
    return mpmath.matrix([[mpmath.mpmathify(entry) for entry in row] for row in A.tolist()])


def gradient(loss, *inputs: Tensor, symmetric: bool = False) -> list[Tensor]:
    """Gradients of ``loss(*inputs)``, from matrices of mpmath to a number, to some 20 digits.

    Of complex matrices as torch has them: the slope along 1, and i times that along i. With ``symmetric``
    the loss is only defined for symmetric or Hermitian matrices, and so is the gradient.
    """
    step = mpmath.mpf(2) ** -40
    gradients = []
    with mpmath.workdps(80):
        exact = [digits(A) for A in inputs]
        for k, A in enumerate(inputs):
            result = torch.zeros_like(A, dtype=torch.promote_types(A.dtype, torch.float64))
            for i, j in itertools.product(*map(range, A.shape)):
                if symmetric and j > i:
                    continue
                for direction in (1, 1j) if A.is_complex() else (1,):
                    if symmetric and i == j and direction == 1j:
                        continue
                    slopes = []
                    for h in (step, -step):
                        moved = exact[k].copy()
                        moved[i, j] += h * direction
                        if symmetric and i != j:
                            moved[j, i] += h * mpmath.conj(direction)
                        slopes.append(loss(*exact[:k], moved, *exact[k + 1 :]) / (2 * h))
                    slope = float(sum(slopes) / (2 if symmetric and i != j else 1))
                    result[i, j] += slope * direction
                if symmetric:
                    result[j, i] = result[i, j].conj()
            gradients.append(result)
    return gradients


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


def singular_values(A: mpmath.matrix) -> list[mpmath.mpf]:
    return list(mpmath.svd(A, compute_uv=False))


def power(A: mpmath.matrix, exponent: float) -> mpmath.matrix:
    """Of a semi-definite matrix; negative eigenvalues are rounding."""
    lam, U = mpmath.eigh(A)
    values = [max(x, mpmath.mpf(0)) ** mpmath.mpf(exponent) for x in lam]
    return U * mpmath.diag(values) * U.H


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
