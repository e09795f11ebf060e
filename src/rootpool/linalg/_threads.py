"""Set how many threads the calling thread computes with, if possible without changing it for others."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import torch

from ._private import thread_setters

__all__ = ["compute_with", "default_kept", "one_thread", "own_setters"]


@functools.cache
def own_setters() -> tuple[Callable[[int], object], ...]:
    """The setters of the calling thread that torch listens to; empty if it does not."""
    setters, before = thread_setters(), torch.get_num_threads()
    _call(setters, before + 1)
    heard = torch.get_num_threads() == before + 1  # not if torch computes with another library
    _call(setters, before)
    return setters if heard else ()


def _call(setters: Iterable[Callable[[int], object]], threads: int) -> None:
    for set_threads in setters:
        set_threads(threads)


def compute_with(threads: int) -> None:
    """Set the calling thread; fall back to ``torch.set_num_threads``, which also affects new threads."""
    if torch.get_num_threads() == threads:  # asked first: a new thread takes the default at this
        return
    if own_setters():
        _call(own_setters(), threads)
    else:
        torch.set_num_threads(threads)


@contextlib.contextmanager
def default_kept() -> Iterator[None]:
    """Restore the thread count that new threads inherit, as read from a new thread."""
    if own_setters():  # then it never changes
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
    """Let the calling thread compute with one thread; restore its setting afterwards."""
    before = torch.get_num_threads()
    compute_with(1)
    try:
        yield
    finally:
        compute_with(before)
