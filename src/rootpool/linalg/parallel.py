"""Split a CPU batch over threads that use one BLAS thread each.

LAPACK works on one matrix at a time, and more BLAS threads hardly help it at the sizes of
covariances; many matrices at once do. The threads are our own because PyTorch's cannot be reached
from Python.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import pairwise

import torch

__all__ = ["count_pieces", "even_cuts", "run_pieces"]

# Handing work to another thread costs about 0.1 ms, the time that LAPACK needs for some 2000 matrix
# entries (50 ns each, nearly independent of the size of the matrices).
ENTRIES_WORTH_A_SLICE = 8192
MULTITHREADED_BLAS_STARTS_AT = 65  # below, LAPACK gives the same bits with any number of threads
MULTITHREADED_BLAS_PAYS_FROM = 256  # for one matrix; measured by benchmarks/eigh.py
SLICES_PER_WORKER = 4  # more slices than workers, so that a core that is busy elsewhere gets fewer


class _Pool:
    """A lazily made executor whose threads run single-threaded BLAS; forgotten after a fork."""

    def __init__(self) -> None:
        self.forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        # A forked child inherits the executor but not its threads, and perhaps a held lock.
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None
        self._workers = 0

    def executor(self, workers: int) -> ThreadPoolExecutor:
        with self._lock:
            if self._executor is None or self._workers < workers:
                # The smaller pool ends by itself once nobody holds it any more.
                self._executor, self._workers = self._start(workers), workers
            return self._executor

    @staticmethod
    def _start(workers: int) -> ThreadPoolExecutor:
        # torch.set_num_threads sets the calling thread and, besides, the default of threads that
        # have not used torch yet. So all workers start at once and then the default is put back.
        default = torch.get_num_threads()
        started = threading.Barrier(workers + 1)

        def use_one_blas_thread() -> None:
            torch.get_num_threads()  # takes the default first, which would overwrite ours later
            torch.set_num_threads(1)

        executor = ThreadPoolExecutor(workers, "rootpool", initializer=use_one_blas_thread)
        for _ in range(workers):
            executor.submit(started.wait)
        started.wait()
        torch.set_num_threads(default)
        return executor


_POOL = _Pool()


def count_pieces(batch: int, side: int) -> int:
    """Into how many pieces to cut a batch of ``side x side`` matrices; 0: the caller does it.

    Each matrix is worked on alone and with one BLAS thread, so the result is the same to the bit
    however many threads there are (as many as ``torch.get_num_threads()``) and whatever else is in
    the batch. One exception, for speed: a single large matrix gets all of the caller's BLAS threads,
    unless ``torch.use_deterministic_algorithms`` is on.
    """
    workers = torch.get_num_threads()
    if workers == 1 or batch == 0:
        return 0
    pieces = min(batch, SLICES_PER_WORKER * workers, batch * side**2 // ENTRIES_WORTH_A_SLICE)
    if pieces > 1:
        return pieces
    if side < MULTITHREADED_BLAS_STARTS_AT:
        return 0
    single_large = batch == 1 and side >= MULTITHREADED_BLAS_PAYS_FROM
    return 0 if single_large and not torch.are_deterministic_algorithms_enabled() else 1


def run_pieces(work: Callable[[slice], None], cuts: Sequence[int]) -> None:
    """Call ``work`` on the slices between successive ``cuts``, in single-threaded workers.

    The caller only waits, so that neither its BLAS threads nor its settings are touched; with one
    thread (``torch.get_num_threads()``) it does the work itself.
    """
    workers = min(torch.get_num_threads(), len(cuts) - 1)
    pieces = (slice(a, b) for a, b in pairwise(cuts))
    if torch.get_num_threads() == 1:
        for piece in pieces:
            work(piece)
        return
    inference = torch.is_inference_mode_enabled()  # thread-local, like the gradient mode
    turn = threading.Lock()

    def task() -> None:
        with torch.inference_mode(inference), torch.no_grad():
            while True:
                with turn:
                    piece = next(pieces, None)
                if piece is None:
                    return
                work(piece)

    executor = _POOL.executor(torch.get_num_threads())
    futures = [executor.submit(task) for _ in range(workers)]
    wait(futures)
    for future in futures:
        future.result()


def even_cuts(batch: int, pieces: int) -> list[int]:
    """Where to cut ``range(batch)`` into that many nearly equal pieces."""
    return [batch * k // pieces for k in range(pieces + 1)]
