"""Names of torch and Python that their authors do not promise to keep; what uses them is tested.

When a new version of either breaks something here, this is the only file to mend.
"""

from __future__ import annotations

import concurrent.futures.thread
import contextlib
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.autograd import forward_ad

F = TypeVar("F", bound=Callable[..., object])

_PROXY = torch._C._TorchDispatchModeKey.PROXY

# For operators that make the host wait, or that cache what they make at their first call: the compiler leaves
# those with this tag out of CUDA graphs.
NOT_IN_CUDA_GRAPHS: dict[str, Any] = (
    {"tags": [torch.Tag.cudagraph_unsafe]}
    if "tags" in inspect.signature(torch.library.custom_op).parameters
    else {}
)


def cuda_solves_in_turn(device: torch.device, n: int) -> bool:
    """Whether torch decomposes a batch of n x n matrices on a GPU one after the other.

    The call of cuSOLVER for a batch of any size came with torch 2.12.
    """
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    old = version < (2, 12)
    return device.type == "cuda" and torch.version.hip is None and old and n > 32


def is_wrapped(A: Tensor) -> bool:
    """Whether ``A`` stands for other tensors: inside ``torch.func``, or the older vmap of autograd."""
    return is_transformed(A) or bool(torch._C._functorch.is_legacy_batchedtensor(A))


# Whether a tensor stands for others inside torch.func (vmap, grad, jvp).
is_transformed: Callable[[Tensor], bool] = torch._C._functorch.is_functorch_wrapped_tensor


def any_autocast() -> bool:
    """Whether autocast is on for any device; True while a compiler traces, which cannot ask."""
    return torch.compiler.is_compiling() or bool(torch._C._is_any_autocast_enabled())


def records_operators() -> bool:
    """Whether ``torch.jit.trace`` or ``make_fx`` writes down the operators of this thread."""
    return bool(torch._C._is_tracing() or torch._C._get_dispatch_mode(_PROXY) is not None)


def within_dual_level() -> bool:
    """Whether tensors may carry tangents of ``torch.autograd.forward_ad``."""
    return bool(forward_ad._current_level >= 0)


def within_transform() -> bool:
    """Whether a transformation of ``torch.func`` is under way, which asks Functions for more."""
    return bool(torch._C._are_functorch_transforms_active())


def propagating_tangents() -> contextlib.AbstractContextManager[object]:
    """A context in which operators pass tangents on, as they do everywhere but inside a ``jvp``."""
    context: contextlib.AbstractContextManager[object] = forward_ad._set_fwd_grad_enabled(True)
    return context


def observed_by_modes() -> bool:
    """Whether dispatch modes, such as a counter of operations, look at what this thread calls."""
    return bool(torch._C._len_torch_dispatch_stack() > 0)


def interpreter_exits() -> bool:
    """Whether the main thread has ended, after which executors take no new work."""
    return bool(concurrent.futures.thread._shutdown)


def constant_for_compilers(function: F) -> F:
    """``torch.compiler.assume_constant_result`` without the import of the compiler."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function
