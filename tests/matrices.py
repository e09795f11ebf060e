"""Spectra by kind, and symmetric matrices that have them: the ordinary inputs of every test."""

from __future__ import annotations

import torch
from torch import Tensor

# Relative errors that a result may have. Both are about a hundred times the rounding unit: the
# matrices here are small and the formulas lose no digits to cancellation.
TOLERANCE = {torch.float64: 1e-13, torch.float32: 1e-5}
DTYPES = tuple(TOLERANCE)

# Ascending eigenvalues of a 6 x 6 matrix.
SPECTRA = {
    "separated": [0.5, 1.0, 2.0, 3.5, 5.0, 8.0],
    "clustered": [1.0, 1.0 + 1e-9, 1.0 + 2e-9, 2.0, 2.0 + 1e-12, 3.0],
    "repeated": [1.0, 1.0, 1.0, 2.0, 2.0, 3.0],
    "identity": [1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
    "rank-deficient": [0.0, 0.0, 0.0, 1.0, 2.0, 2.0],
    "zero": [0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    "graded": [1e-12, 1e-9, 1e-6, 1e-4, 1e-2, 1.0],
    "huge": [1e30, 1e30, 2e30, 3e30, 3.5e30, 9e30],
    "tiny": [1e-30, 1e-30, 2e-30, 3e-30, 3.5e-30, 9e-30],
}
DEFINITE = [name for name, lam in SPECTRA.items() if lam[0] > 0]


def spectrum(kind: str, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.tensor(SPECTRA[kind], dtype=torch.float64).to(dtype)


def orthogonal(n: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.linalg.qr(torch.randn(n, n, dtype=torch.float64, generator=generator))[0]


def with_spectrum(lam: Tensor, seed: int = 0) -> Tensor:
    """A symmetric matrix with (nearly) the eigenvalues ``lam``, in general position."""
    Q = orthogonal(lam.shape[-1], seed)
    return symmetric((Q * lam.double()) @ Q.mT).to(lam.dtype)


def matrix(kind: str, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    return with_spectrum(spectrum(kind), seed).to(dtype)


def symmetric(A: Tensor) -> Tensor:
    return (A + A.mT) / 2


def random(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=dtype, generator=generator)


def random_symmetric(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    return symmetric(random(*shape, dtype=dtype, seed=seed))


def random_definite(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    A = random(*shape, dtype=dtype, seed=seed)
    return A @ A.mT + torch.eye(shape[-1], dtype=dtype)


def relative_error(got: Tensor, expected: Tensor) -> float:
    return float((got.double() - expected.double()).norm() / expected.double().norm())
