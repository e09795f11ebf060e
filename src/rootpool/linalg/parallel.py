"""Split a CPU batch over threads that use one BLAS thread each.

LAPACK works on one matrix at a time, and more BLAS threads hardly help it at the sizes of
covariances; many matrices at once do. The threads are our own because PyTorch's cannot be reached
from Python.

After an operator on a large tensor, PyTorch's threads wait for the next one at full speed for some
milliseconds (so does GNU's OpenMP by default), on cores that our workers need: a decomposition right
after it can take half as long again. So the caller leaves large tensors to the workers, checks included.
"""

from __future__ import annotations

import contextlib
import contextvars
import math
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import pairwise

import torch
from torch import Tensor
from torch.linalg import LinAlgError

from ._private import interpreter_exits, observed_by_modes

# LAPACK needs some 60 ns per entry, nearly whatever the size of the matrices; handing work to another
# thread costs 0.1 ms: a piece of less than a millisecond does not pay.
ENTRIES_WORTH_A_PIECE = 16384
PIECES_PER_WORKER = 2  # more than one, so that a worker on a busy core can do less
# Smaller matrices LAPACK treats alike with any number of threads. Of MKL that is so on an Intel Xeon; on an
# AMD EPYC, sizes from 32 on (26 with MKL_CBWR=AVX2) may already differ by rounding.
MULTITHREADED_BLAS_STARTS_AT = 33


@contextlib.contextmanager
def default_kept() -> Iterator[None]:
    """Restore the thread count that new threads inherit, as read from a new thread."""
    with ThreadPoolExecutor(1) as new:
        default = new.submit(torch.get_num_threads).result()
        try:
            yield
        finally:
            new.submit(torch.set_num_threads, default).result()


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Let the calling thread compute with one thread; restore its setting afterwards."""
    before = torch.get_num_threads()
    if before > 1:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        if before > 1:
            torch.set_num_threads(before)


# --------------------------------------------------------------------------------------------------
# The workers


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
        self.here = threading.local()

    def executor(self, workers: int) -> ThreadPoolExecutor:
        with self._lock:
            if self._executor is None or self._workers < workers:
                # The smaller pool ends by itself once nobody holds it any more.
                self._executor, self._workers = self._start(workers), workers
            return self._executor

    def _start(self, workers: int) -> ThreadPoolExecutor:
        """Start all workers at once, and restore torch's default before the lock is released."""
        started = threading.Barrier(workers + 1)

        def prepare() -> None:
            self.here.is_worker = True
            torch.get_num_threads()  # a new thread takes the default at its first question
            torch.set_num_threads(1)

        executor = ThreadPoolExecutor(workers, "rootpool", initializer=prepare)
        with default_kept():
            try:
                for _ in range(workers):
                    executor.submit(started.wait)
                started.wait()
            except BaseException:  # those that did start must not wait for the others forever
                started.abort()
                executor.shutdown(wait=False)
                raise
        return executor


_POOL = _Pool()


# --------------------------------------------------------------------------------------------------


def count_pieces(
    batch: int, side: int, device: torch.device, effort: float = 1.0, least: int = 1
) -> int:
    """Number of pieces for a batch of ``side x side`` matrices; 0 if the caller is to do it all.

    Work on an accelerator is the caller's: in another thread it would miss the current stream.

    ``effort`` is the work per entry, in decompositions; ``least`` how many matrices are worth a piece.

    Each matrix is worked on by one BLAS thread, so that its result does not depend on the number of
    threads (``torch.get_num_threads()``) or on the rest of the batch by more than rounding; the bits
    may (see "Bits" in docs/appendix/reliability.md). A single matrix is left to the caller with all its BLAS
    threads, for speed; with ``torch.use_deterministic_algorithms`` it gets one like the others.
    """
    workers = torch.get_num_threads()
    left_alone = batch <= 1 and not torch.are_deterministic_algorithms_enabled()
    if left_alone or workers == 1 or batch == 0 or device.type != "cpu":
        return 0
    if batch == 1:
        return 1 if side >= MULTITHREADED_BLAS_STARTS_AT else 0
    worth = min(int(effort * batch * side**2 / ENTRIES_WORTH_A_PIECE), batch // least)
    pieces = min(batch, PIECES_PER_WORKER * workers, worth)
    if side < MULTITHREADED_BLAS_STARTS_AT:
        return pieces if pieces > 1 else 0
    return max(pieces, min(batch, workers))


def in_worker() -> bool:
    """Whether this thread is one of the workers."""
    return getattr(_POOL.here, "is_worker", False)


def run_pieces(work: Callable[[slice], None], cuts: Sequence[int]) -> None:
    """Call ``work`` on the slices between successive ``cuts``, in single-threaded workers.

    For work on the CPU: on an accelerator, call ``work`` yourself, because a worker knows nothing of
    your current stream. The caller only waits, so that neither its BLAS threads nor its settings are
    touched. It does the work itself, as a worker would, if it has one thread
    (``torch.get_num_threads()``), inside a worker, while a dispatch mode such as a counter of
    operations looks on, which workers do not have, and where no worker can be had: while the
    interpreter exits, or at the system's limit of threads.
    """
    threads = torch.get_num_threads()
    pieces = (slice(a, b) for a, b in pairwise(cuts))
    inference = torch.is_inference_mode_enabled()  # thread-local, like the gradient mode
    turn = threading.Lock()

    def task() -> None:
        with torch.inference_mode(inference), torch.no_grad(), one_thread():
            while True:
                with turn:
                    piece = next(pieces, None)
                if piece is None:
                    return
                work(piece)

    if threads == 1 or in_worker() or observed_by_modes():
        task()
        return
    futures: list[Future[None]] = []
    try:
        executor = _POOL.executor(threads)
        for _ in range(min(threads, len(cuts) - 1)):
            # A context for each: the switch of the checks must reach the workers.
            futures.append(executor.submit(contextvars.copy_context().run, task))
    except RuntimeError:  # no new thread, or no new work for those there are
        _leave_if_daemon()
        task()
    finally:
        wait(futures)
    while futures:  # popped, because an error that holds this frame must not be held by it in turn
        futures.pop(0).result()


def _leave_if_daemon() -> None:
    """End a daemon thread while the interpreter exits, as Python would do a moment later.

    If Python does it inside torch, the process aborts.
    """
    if interpreter_exits() and threading.current_thread().daemon:
        raise SystemExit


def even_cuts(batch: int, pieces: int) -> list[int]:
    """Ends of that many nearly equal pieces of ``range(batch)``, with 0 in front."""
    return [batch * k // pieces for k in range(pieces + 1)]


def _room_for(batch: int, part: Tensor) -> Tensor:
    """Memory for a batch of which this is a part, column by column if it is so: products round by it."""
    if part.dim() > 2 and part.mT.is_contiguous():
        return part.new_empty(batch, *part.mT.shape[1:]).mT
    return part.new_empty(batch, *part.shape[1:])


def batchwise(
    function: Callable[..., tuple[Tensor, ...]],
    *tensors: Tensor,
    trailing: Sequence[int],
    effort: float = 1.0,
    least: int = 1,
) -> tuple[Tensor, ...]:
    """``function(*tensors)`` for tensors with common batch dimensions, piece by piece in workers.

    A piece that has been loaded into the cache goes through all steps of ``function`` there. Tensors
    on an accelerator stay in one piece and in the calling thread. ``trailing`` says how many
    dimensions of each tensor are not batch dimensions; the longest one of the first tensor is the side of
    the matrices.
    """
    k = tensors[0].dim() - trailing[0]
    lead, sides = tensors[0].shape[:k], tensors[0].shape[k:]
    batch = math.prod(lead)
    pieces = count_pieces(batch, max(sides), tensors[0].device, effort, least)
    if pieces == 0:
        return function(*tensors)
    flat = [
        t.detach().reshape(batch, *t.shape[t.dim() - k :])
        for t, k in zip(tensors, trailing, strict=True)
    ]
    results: list[Tensor] = []
    first = threading.Lock()

    def work(piece: slice) -> None:
        parts = function(*(t[piece] for t in flat))
        with first:
            if not results:
                results.extend(_room_for(batch, part) for part in parts)
        for result, part in zip(results, parts, strict=True):
            result[piece] = part

    try:
        run_pieces(work, even_cuts(batch, pieces))
    except (ValueError, LinAlgError):
        function(*tensors)  # raises again, and names the item by its place in the whole batch
        raise
    return tuple(with_batch(result, lead) for result in results)


def with_batch(flat: Tensor, lead: Sequence[int]) -> Tensor:
    """Give a result ``(batch, ...)`` its batch dimensions; the caller may change it in place.

    Autograd does not allow that for views that a Function returns; ``data`` is not a view for it.
    """
    return flat.reshape(*lead, *flat.shape[1:]).data
