"""Spectra by kind, and symmetric matrices that have them: the ordinary inputs of every test.

Two variables of the environment change where they are: ``ROOTPOOL_TEST_DEVICE`` (such as ``cuda``)
puts them on a device, ``ROOTPOOL_TEST_OFFSET=1`` at an address one entry off, where other CPUs round
differently.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import torch
from torch import Tensor

DEVICE = torch.device(os.environ.get("ROOTPOOL_TEST_DEVICE") or "cpu")
OFFSET = int(os.environ.get("ROOTPOOL_TEST_OFFSET") or 0)

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


def place(A: Tensor) -> Tensor:
    """``A`` on the device under test, and at an odd address if that is asked for."""
    if not OFFSET:
        return A.to(DEVICE)
    storage = torch.empty(A.numel() + OFFSET, dtype=A.dtype, device=DEVICE)
    return storage[OFFSET:].view(A.shape).copy_(A)


def generator(seed: int) -> torch.Generator:
    """Random numbers are those of the CPU on every device."""
    return torch.Generator("cpu").manual_seed(seed)


def spectrum(kind: str, dtype: torch.dtype = torch.float64) -> Tensor:
    return place(torch.tensor(SPECTRA[kind], dtype=torch.float64).to(dtype))


def orthogonal(n: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.linalg.qr(random(n, n, dtype=dtype, seed=seed))[0]


def with_spectrum(lam: Tensor, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """A symmetric matrix with (nearly) the eigenvalues ``lam``, in general position."""
    Q = orthogonal(lam.shape[-1], seed, dtype)
    return place(symmetric((Q * lam.double()) @ Q.mH))


def with_eigenvalues(lam: list[float], **options: object) -> Tensor:
    return with_spectrum(place(torch.tensor(lam, dtype=torch.float64)), **options)


def with_singular_values(
    m: int, n: int, s: list[float], dtype: torch.dtype = torch.float64
) -> Tensor:
    U, V = orthogonal(m, 5, dtype)[:, : len(s)], orthogonal(n, 6, dtype)[:, : len(s)]
    return place((U * place(torch.tensor(s, dtype=torch.float64))) @ V.mH)


def matrix(kind: str, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    return place(with_spectrum(spectrum(kind), seed).to(dtype))


def symmetric(A: Tensor) -> Tensor:
    return (A + A.mH) / 2


def inner(A: Tensor, B: Tensor) -> Tensor:
    """The real part of ``sum conj(A) * B``."""
    return (A.conj() * B).sum().real


def gradients(loss: Callable[..., Tensor], *inputs: Tensor) -> tuple[Tensor, ...]:
    """By an ordinary backward pass, in which the library can read values."""
    leaves = [A.detach().clone().requires_grad_() for A in inputs]
    return torch.autograd.grad(loss(*leaves), leaves)


def tangent(f: Callable[[Tensor], Tensor], A: Tensor, V: Tensor) -> Tensor:
    """The derivative along ``V`` by dual numbers, the forward mode without ``torch.func``."""
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(A, V)
        return torch.autograd.forward_ad.unpack_dual(f(dual)).tangent


def value_and_gradient(
    f: Callable[[Tensor], Tensor], X: Tensor, upstream: Tensor
) -> tuple[Tensor, Tensor]:
    """``f(X)``, and the gradient of X for a gradient of that."""
    X = X.detach().clone().requires_grad_()
    F = f(X)
    return F.detach(), torch.autograd.grad(F, X, upstream.to(F.dtype))[0]


def random(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    return place(torch.randn(*shape, dtype=dtype, device="cpu", generator=generator(seed)))


def random_symmetric(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    return place(symmetric(random(*shape, dtype=dtype, seed=seed)))


def random_definite(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    A = random(*shape, dtype=dtype, seed=seed)
    return place(A @ A.mT + torch.eye(shape[-1], dtype=dtype, device=A.device))


def relative_error(got: Tensor, expected: Tensor) -> float:
    got, expected = got.detach().double(), expected.detach().double()
    return float((got - expected).norm() / expected.norm())
