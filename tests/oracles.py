"""Slow, obvious answers that share no code and no formula with the library."""

from __future__ import annotations

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
            block[i, j] = block[n + i, n + j] = mpmath.mpf(A[i, j].item())
            block[i, n + j] = mpmath.mpf(E[i, j].item())
    F = MATRIX_FUNCTIONS[name](block)

    def part(row: int, column: int) -> Tensor:
        entries = [[float(mpmath.re(F[row + i, column + j])) for j in range(n)] for i in range(n)]
        return torch.tensor(entries, dtype=torch.float64)

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
