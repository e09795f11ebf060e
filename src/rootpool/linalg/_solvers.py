"""Solvers: a LAPACK routine, the shapes of its results, and what to try when it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .jacobi import CHUNK, jacobi_eigh
from .units import power_of_two

__all__ = ["EIGH", "JACOBI", "SVD", "Factors", "Solver"]

Factors = tuple[Tensor, ...]


@dataclass(frozen=True)
class Solver:
    """A routine for one matrix or a batch ``(..., m, n)``, and what to try on a matrix it fails on."""

    name: str
    run: Callable[[Tensor], Factors]
    allocate: Callable[[Tensor], Factors]
    reads: Callable[[Tensor], Tensor]  # the part of A that the routine looks at
    ladder: Callable[[Tensor], Iterator[Callable[[], Factors]]]
    least_piece: int = 1  # matrices that a worker must have to be worth it


def _column_major(A: Tensor, rows: int, columns: int) -> Tensor:
    # The layout of LAPACK, and so of what torch.linalg returns.
    return A.new_empty(*A.shape[:-2], columns, rows).mT


def _double(A: Tensor) -> torch.dtype:
    return torch.complex128 if A.is_complex() else torch.float64


def _real_empty(A: Tensor, *shape: int) -> Tensor:
    return A.new_empty(shape, dtype=A.dtype.to_real())


def _allocate_eigh(A: Tensor) -> Factors:
    return _real_empty(A, *A.shape[:-1]), _column_major(A, *A.shape[-2:])


def _eigh_ladder(A: Tensor) -> Iterator[Callable[[], Factors]]:
    """Ways to the same decomposition for a matrix on which the direct call failed."""
    A = A.tril() + A.tril(-1).mH.resolve_conj()

    def scaled() -> Factors:
        scale = power_of_two(A.abs().amax())
        lam, U = torch.linalg.eigh(A / scale)
        return lam * scale, U

    def reversed_order() -> Factors:
        lam, U = torch.linalg.eigh(A.flip(-2, -1))
        return lam, U.flip(-2)

    def in_float64_on_cpu() -> Factors:
        lam, U = torch.linalg.eigh(A.to("cpu", _double(A)))
        return lam.to(A.device, A.dtype.to_real()), U.to(A)

    yield from (scaled, reversed_order, in_float64_on_cpu)


def _svd_solver(full_matrices: bool) -> Solver:
    def run(A: Tensor) -> Factors:
        U, s, Vh = torch.linalg.svd(A, full_matrices)
        return U, s, Vh

    def allocate(A: Tensor) -> Factors:
        m, n = A.shape[-2:]
        k = min(m, n)
        return (
            _column_major(A, m, m if full_matrices else k),
            _real_empty(A, *A.shape[:-2], k),
            _column_major(A, n if full_matrices else k, n),
        )

    def ladder(A: Tensor) -> Iterator[Callable[[], Factors]]:
        def scaled() -> Factors:
            scale = power_of_two(A.abs().amax())
            U, s, Vh = torch.linalg.svd(A / scale, full_matrices)
            return U, s * scale, Vh

        def transposed() -> Factors:
            V, s, Uh = torch.linalg.svd(A.mH.resolve_conj(), full_matrices)
            return Uh.mH.resolve_conj(), s, V.mH.resolve_conj()

        def in_float64_on_cpu() -> Factors:
            U, s, Vh = torch.linalg.svd(A.to("cpu", _double(A)), full_matrices)
            return U.to(A), s.to(A.device, A.dtype.to_real()), Vh.to(A)

        yield from (scaled, transposed, in_float64_on_cpu)

    return Solver("svd", run, allocate, lambda A: A, ladder)


def _eigh(A: Tensor) -> Factors:
    lam, U = torch.linalg.eigh(A)
    return lam, U


EIGH = Solver("eigh", _eigh, _allocate_eigh, torch.tril, _eigh_ladder)
JACOBI = replace(EIGH, run=jacobi_eigh, least_piece=CHUNK)
SVD = {full: _svd_solver(full) for full in (False, True)}
