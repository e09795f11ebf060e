"""Keep freed memory within the process while a network trains on a CPU.

glibc gives large blocks back to the system when they are freed. Every step of a training then asks for the
same activations anew, and the system clears them page by page, which may take longer than to compute them.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator

__all__ = ["freed_memory_kept"]

# Parameters of mallopt, in malloc.h.
TRIM_THRESHOLD, MMAP_MAX = -1, -4
NEVER, NONE = -1, 0
# What glibc comes to by itself once a program has freed large blocks.
USUAL_TRIM, USUAL_MMAPS = 64 << 20, 65536


@contextlib.contextmanager
def freed_memory_kept() -> Iterator[None]:
    """Serve large blocks from memory that was freed before; at the end, give back what is free.

    It does nothing where memory is not managed by glibc, or where its environment variables
    (``MALLOC_...``, ``GLIBC_TUNABLES``) say how to do it.
    """
    libc = _glibc()
    if libc is None:
        yield
        return
    libc.mallopt(TRIM_THRESHOLD, NEVER)
    libc.mallopt(MMAP_MAX, NONE)
    try:
        yield
    finally:
        libc.mallopt(TRIM_THRESHOLD, USUAL_TRIM)
        libc.mallopt(MMAP_MAX, USUAL_MMAPS)
        libc.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    """The C library of this process, if it is glibc and nobody has set it up."""
    chosen = any(name.startswith("MALLOC_") for name in os.environ)
    if sys.platform != "linux" or chosen or "malloc" in os.environ.get("GLIBC_TUNABLES", ""):
        return None
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "gnu_get_libc_version") else None
