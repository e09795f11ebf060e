"""The paper's meta-layer as its equations and its published code have it, to look at its gradients.

Nothing here is meant to be used for training: it shows what the letter of the method does at ties.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor

__all__ = ["REFERENCE_KERNELS", "pade_in_precision", "polynomial", "reference_gradient"]

Number = TypeVar("Number", float, Tensor)
Kernel = Callable[[Tensor, Tensor], Tensor]  # larger and smaller eigenvalue of a pair


@functools.cache
def pade_in_precision(degree: int, digits: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Coefficients of the diagonal approximant of 1/(1 - x), solved for in so many digits.

    The Taylor coefficients come from numerical differentiation and are ones up to rounding. It is that
    rounding which keeps the linear system from being exactly singular. Where it does not (degree 20 in
    30 digits), the solver raises ``ZeroDivisionError``.
    """
    import mpmath  # type: ignore[import-untyped]  # comes with torch, by way of sympy

    with mpmath.workdps(digits):
        series = mpmath.taylor(lambda x: 1 / (1 - x), 0, degree)
        p, q = mpmath.pade(series, degree - degree // 2, degree // 2)
        return tuple(float(c) for c in p), tuple(float(c) for c in q)


def polynomial(coefficients: Sequence[float], x: Number) -> Number:
    """Lowest power first, by Horner's rule."""
    value = 0 * x
    for c in reversed(coefficients):
        value = value * x + c
    return value


def _ordinary(a: Tensor, b: Tensor) -> Tensor:
    return 1 / (a - b)


def _laundered(a: Tensor, b: Tensor) -> Tensor:
    """Infinities replaced by the largest finite entry, as the published code does."""
    K = 1 / (a - b)
    infinite = K.isinf()
    return torch.where(infinite, K[~infinite].amax(), K)


def _pade(a: Tensor, b: Tensor) -> Tensor:
    p, q = pade_in_precision(100, 20)
    return polynomial(p, b / a) / polynomial(q, b / a) / a


# Our method of the same kind, and the kernel of the reference.
REFERENCE_KERNELS: dict[str, tuple[str, Kernel]] = {
    "SVD": ("mpn-cov", _ordinary),
    "SVD, infinities replaced": ("mpn-cov", _laundered),
    "SVD-Trunc": ("svd-trunc", lambda a, b: (1 / (a - b)).clamp(-1e10, 1e10)),
    "SVD-Taylor": ("svd-taylor", lambda a, b: polynomial((1.0,) * 101, b / a) / a),
    "SVD-Pade": ("svd-pade", _pade),
}


def reference_gradient(X: Tensor, G: Tensor, kernel: Kernel) -> Tensor:
    """Equations (4) to (6) of the paper: the gradient of the root to features ``(d, N)``."""
    d, N = X.shape
    A = X - X.mean(-1, keepdim=True)
    U, lam, _ = torch.linalg.svd(A @ A.mT / N)
    lam = lam.clamp_min(torch.finfo(lam.dtype).eps)
    row, column = torch.triu_indices(d, d, 1)
    K = lam.new_zeros(d, d)
    K[row, column] = kernel(lam[row], lam[column])
    K = K - K.mT
    to_vectors = (G + G.mT) @ (U * lam.sqrt())
    to_values = (U.mT @ G @ U).diagonal() / (2 * lam.sqrt())
    to_covariance = U @ (K.mT * (U.mT @ to_vectors) + torch.diag(to_values)) @ U.mT
    return (to_covariance + to_covariance.mT) @ A / N
