"""Names of torch and Python that their authors do not promise to keep; each has a test.

When a new version of either breaks something here, this is the only file to mend.
"""

from __future__ import annotations

import concurrent.futures.thread
import ctypes
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

__all__ = ["interpreter_exits", "is_wrapped", "thread_setters"]


def is_wrapped(A: Tensor) -> bool:
    """Whether ``A`` stands for other tensors inside ``torch.func`` (vmap, grad, jvp)."""
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(A))


def thread_setters() -> tuple[Callable[[int], object], ...]:
    """OpenMP's and MKL's functions that set the threads of the calling thread alone.

    ``torch.set_num_threads`` calls both, and also changes the default of all threads to come. Empty
    where they cannot be reached: on another system, or in another build of torch.
    """
    try:
        everything = ctypes.CDLL(None)  # in the order in which torch's own calls were resolved
        setters = [everything.omp_set_num_threads]
        if torch.backends.mkl.is_available():
            library = Path(torch.__file__).with_name("lib") / "libtorch_cpu.so"
            setters.append(ctypes.CDLL(str(library)).MKL_Set_Num_Threads_Local)
    except (OSError, TypeError, AttributeError):
        return ()
    return tuple(setters)


def interpreter_exits() -> bool:
    """Whether the main thread has ended, after which executors take no new work."""
    return bool(concurrent.futures.thread._shutdown)
