"""How many threads the calling thread computes with: set for it alone where that is possible."""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

__all__ = ["compute_with", "default_kept", "one_thread"]


@functools.cache
def _own_setters() -> tuple[Callable[[int], object], ...]:
    """OpenMP's and MKL's setters for the calling thread; empty where they cannot be reached.

    ``torch.set_num_threads`` calls both, and changes the default of all threads to come besides.
    """
    try:
        everything = ctypes.CDLL(None)  # in the order in which torch's own calls were resolved
        setters = [everything.omp_set_num_threads]
        if torch.backends.mkl.is_available():
            library = Path(torch.__file__).with_name("lib") / "libtorch_cpu.so"
            setters.append(ctypes.CDLL(str(library)).MKL_Set_Num_Threads_Local)
    except (OSError, TypeError, AttributeError):  # another system, or another build
        return ()
    before = torch.get_num_threads()
    _call(setters, before + 1)
    heard = torch.get_num_threads() == before + 1  # not if torch computes with another library
    _call(setters, before)
    return tuple(setters) if heard else ()


def _call(setters: Iterable[Callable[[int], object]], threads: int) -> None:
    for set_threads in setters:
        set_threads(threads)


def compute_with(threads: int) -> None:
    """Set the calling thread, and the default of threads to come only where it cannot be helped."""
    if torch.get_num_threads() == threads:  # asked first: a new thread takes the default at this
        return
    if _own_setters():
        _call(_own_setters(), threads)
    else:
        torch.set_num_threads(threads)


@contextlib.contextmanager
def default_kept() -> Iterator[None]:
    """Put the default of threads to come back; a thread that has not used torch yet knows it."""
    if _own_setters():  # then it never changes
        yield
        return
    with ThreadPoolExecutor(1) as new:
        default = new.submit(torch.get_num_threads).result()
        try:
            yield
        finally:
            new.submit(torch.set_num_threads, default).result()


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """The calling thread computes alone; as before afterwards, whatever was set meanwhile."""
    before = torch.get_num_threads()
    compute_with(1)
    try:
        yield
    finally:
        compute_with(before)
