"""Solvers: a routine that decomposes, and other ways to call it when it fails."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .parallel import in_worker

Factors = tuple[Tensor, ...]


def power_of_two(x: Tensor) -> Tensor:
    """The largest power of two that is at most ``x``, entry by entry, for ``x > 0``; 1/2 for 0.

    It is always within the range of the dtype, and its reciprocal is not always: divide by it.
    """
    return torch.ldexp(torch.ones_like(x), torch.frexp(x).exponent - 1)


# --------------------------------------------------------------------------------------------------
# Many tiny symmetric matrices at once, by Jacobi's rotations of all of them together

# From how many matrices on it is faster than LAPACK, by side, in both precisions, on one thread of an AMD
# EPYC with MKL. They were level at 900, 1200 and 3000; at 32768 it takes 0.4, 0.5 and 0.7 of the time. What
# it costs is the start of some hundred operators, so faster cores move these numbers less than one would
# think. The table is in benchmarks/eigh.py, also with the backward, which is the same for both.
LEAST_BATCH = {2: 1024, 3: 2048, 4: 4096}
# With more threads than these LAPACK is faster, whose threads do not wait for each other: the many short
# operators here do, in Python. (Two threads with 2048 matrices each took twice as long as one with all.)
MOST_THREADS = {2: 2, 3: 2, 4: 1}
CHUNK = 8192  # matrices at a time: their entries fit into a cache, and fewer are not worth a thread
SWEEPS = 12  # four to six suffice; the convergence is quadratic


def is_tiny(A: Tensor) -> bool:
    """Whether :func:`jacobi_eigh` is the faster way for this batch ``(..., n, n)``, on the CPU.

    Never for a piece of a batch in a worker: the batch as a whole has been asked before.
    """
    n = A.shape[-1]
    if n not in LEAST_BATCH or A.numel() < LEAST_BATCH[n] * n * n:
        return False
    if A.device.type != "cpu" or A.is_complex():
        return False
    return torch.get_num_threads() <= MOST_THREADS[n] and not in_worker()


def jacobi_eigh(A: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues ``(..., n)``, ascending, and eigenvectors ``(..., n, n)`` of the lower triangles.

    LAPACK spends most of its time on a 3 x 3 matrix getting started, once for each matrix. Here every
    operation is elementwise over the whole batch: a rotation of rows and columns p and q makes one
    off-diagonal entry of each matrix zero, and after a few sweeps over all pairs nothing but rounding is
    left of them. Rotations are orthogonal to rounding, so the result is as accurate as LAPACK's.

    Reference: Golub and Van Loan, *Matrix Computations*, 4th edition, section 8.5.
    """
    n = A.shape[-1]
    parts = [_rotated(part) for part in A.reshape(-1, n, n).split(CHUNK)]
    lam = torch.cat([lam for lam, _ in parts])
    U = torch.cat([U.mT for _, U in parts])
    return lam.reshape(A.shape[:-1]), U.reshape(A.shape).mT


def _rotated(A: Tensor) -> tuple[Tensor, Tensor]:
    n, eps = A.shape[-1], torch.finfo(A.dtype).eps
    # In units of a power of two near the largest entry, nothing overflows and no rounding is added.
    unit = power_of_two(A.tril().abs().amax((-2, -1)))
    small = A / unit[:, None, None]
    a = {(i, j): small[:, i, j].contiguous() for i in range(n) for j in range(i + 1)}
    v = list(torch.eye(n, dtype=A.dtype, device=A.device).unsqueeze(-1).expand(n, n, len(A)))
    pairs = list(itertools.combinations(range(n), 2))
    for sweep in range(SWEEPS if n > 2 else 1):
        for p, q in pairs:
            _rotate(a, v, p, q)
        if sweep >= 2 and not max(a[q, p].abs().amax() for p, q in pairs) > 0.1 * eps:
            break
    lam, order = torch.stack([a[i, i] for i in range(n)]).sort(0)
    U = torch.stack(v).gather(0, order.unsqueeze(1).expand(n, n, -1))
    lam = lam * unit
    # Eigenvectors column by column, as LAPACK gives them.
    return lam.mT.contiguous(), U.permute(2, 0, 1).contiguous().mT


def _rotate(a: dict[tuple[int, int], Tensor], v: list[Tensor], p: int, q: int) -> None:
    """Make ``a[q, p]`` zero, ``p < q``, in every matrix.

    ``a`` holds the entries of the lower triangles, ``v[k]`` ``(n, B)`` the k-th eigenvectors.
    """
    off, gap = a[q, p], a[q, q] - a[p, p]
    # The tangent of the smaller angle; hypot neither overflows nor underflows.
    total = gap.abs() + torch.hypot(gap, 2 * off)
    t = 2 * off / torch.copysign(torch.where(total == 0, 1, total), gap)
    c = (t * t + 1).rsqrt()
    s, shift = t * c, t * off
    a[p, p], a[q, q] = a[p, p] - shift, a[q, q] + shift
    a[q, p] = torch.zeros_like(off)
    for r in range(len(v)):
        if r not in (p, q):
            at_p, at_q = (max(r, p), min(r, p)), (max(r, q), min(r, q))
            a[at_p], a[at_q] = _turn(a[at_p], a[at_q], c, s)
    v[p], v[q] = _turn(v[p], v[q], c, s)


def _turn(x: Tensor, y: Tensor, c: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
    return torch.addcmul(c * x, s, y, value=-1), torch.addcmul(c * y, s, x)


# --------------------------------------------------------------------------------------------------
# LAPACK


@dataclass(frozen=True)
class Solver:
    """A routine for one matrix or a batch ``(..., m, n)``, and how to give it a matrix in another order."""

    name: str
    run: Callable[[Tensor], Factors]
    reordered: Callable[[Tensor], Tensor]
    restored: Callable[..., Factors]  # of the reordered matrix: the factors of A
    reads: Callable[[Tensor], Tensor]  # the part of A that the routine looks at
    least_piece: int = 1  # matrices that a worker must have to be worth it

    def ladder(self, A: Tensor) -> Iterator[Callable[[], Factors]]:
        """Ways to the same decomposition for one matrix on which the direct call failed."""

        def scaled() -> Factors:
            scale = power_of_two(self.reads(A).abs().amax())
            return tuple(f * scale if f.dim() == 1 else f for f in self.run(A / scale))

        def in_another_order() -> Factors:
            return self.restored(*self.run(self.reordered(A)))

        def in_float64_on_cpu() -> Factors:
            factors = self.run(A.to("cpu", torch.promote_types(A.dtype, torch.float64)))
            real = A.dtype.to_real()
            return tuple(f.to(A.device, A.dtype if f.is_complex() else real) for f in factors)

        yield from (scaled, in_another_order, in_float64_on_cpu)


def _svd_solver(full_matrices: bool) -> Solver:
    def run(A: Tensor) -> Factors:
        U, s, Vh = torch.linalg.svd(A, full_matrices)
        return U, s, Vh

    def restored(V: Tensor, s: Tensor, Uh: Tensor) -> Factors:
        return Uh.mH.resolve_conj(), s, V.mH.resolve_conj()

    return Solver("svd", run, lambda A: A.mH.resolve_conj(), restored, lambda A: A)


def _eigh(A: Tensor) -> Factors:
    lam, U = torch.linalg.eigh(A)
    return lam, U


EIGH = Solver(
    "eigh",
    _eigh,
    lambda A: A.flip(-2, -1).mH.resolve_conj(),  # the same triangle is read, in reverse
    lambda lam, U: (lam, U.flip(-2)),
    torch.tril,
)
JACOBI = replace(EIGH, run=jacobi_eigh, least_piece=CHUNK)
SVD = {full: _svd_solver(full) for full in (False, True)}


def _values_only(solver: Solver, name: str) -> Solver:
    def run(A: Tensor) -> Factors:
        return (getattr(torch.linalg, name)(A),)

    return replace(solver, name=name, run=run, restored=lambda values: (values,))


EIGVALSH, SVDVALS = _values_only(EIGH, "eigvalsh"), _values_only(SVD[False], "svdvals")
