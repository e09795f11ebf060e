"""Checks of tensors, the errors they raise, and the one switch that turns off those that read values.

An error says what was wrong, what was given, and what to try. Checks of shapes and dtypes are free
and always on. Checks of values make the host wait for an accelerator; :func:`skip_checks` is for
training loops that cannot afford it.
"""

from __future__ import annotations

import cmath
import contextlib
import functools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.linalg import LinAlgError

from ._private import is_transformed, is_wrapped, records_operators, within_dual_level
from .parameters import check_at_least

F = TypeVar("F", bound=Callable[..., object])

# --------------------------------------------------------------------------------------------------
# The switch

_enabled: ContextVar[bool] = ContextVar("rootpool_checks", default=True)


@contextlib.contextmanager
def skip_checks(skip: bool = True) -> Iterator[None]:
    """Skip the checks of values inside this context: broken input then gives NaN instead of an error.

    Every check makes the host wait for the accelerator. What is computed in this context is not
    checked in its backward either, wherever that runs. The choice belongs to the calling thread (and
    asyncio task); others keep their checks. A compiled function takes it from where it is called.

    What remains: checks of shapes, dtypes and options, and the fallbacks for matrices on which the
    solver itself reports a failure.

    Args:
        skip: False changes nothing, so that a condition can be given.

    >>> from rootpool.linalg import sqrtm
    >>> with skip_checks():
    ...     sqrtm(-torch.eye(2)).isnan().all()
    tensor(True)
    """
    if torch.compiler.is_compiling():  # a compiler cannot trace this, nor look at values
        yield
        return
    token = _enabled.set(_enabled.get() and not skip)
    try:
        yield
    finally:
        _enabled.reset(token)


def checks_enabled() -> bool:
    """Whether values may be looked at; True while a compiler traces, which cannot look anyway."""
    return torch.compiler.is_compiling() or _enabled.get()


def checked_like_forward(backward: F) -> F:
    """Let ``backward(ctx, ...)`` check values only if its forward did, by ``ctx.checked``.

    Autograd runs the backward of an accelerator in a thread of its own, which knows nothing of the
    context of the forward: save ``checks_enabled()`` there.
    """

    @functools.wraps(backward)
    def wrapped(ctx: Any, *gradients: object) -> object:
        # Nearly always there is nothing to switch off, and older compilers do not know such contexts.
        if torch.compiler.is_compiling() or ctx.checked:
            return backward(ctx, *gradients)
        with skip_checks():
            return backward(ctx, *gradients)

    return wrapped  # type: ignore[return-value]


def is_concrete(*tensors: Tensor) -> bool:
    """Whether tensors hold values here and now: no tracer, no vmap, no fake or wrapped tensor."""
    if torch.compiler.is_compiling() or records_operators():
        return False
    for A in tensors:  # noqa: SIM110 - a generator would take longer than the questions
        if type(A) not in _PLAIN_TYPES or is_wrapped(A) or A.is_meta:
            return False
    return True


_PLAIN_TYPES = (Tensor, torch.nn.Parameter)


def needs_grad(*tensors: Tensor) -> bool:
    """Whether somebody may want a derivative of what is computed from these tensors.

    Where nobody does, an ``autograd.Function`` would only cost time, and hide its operators from
    ``torch.jit.trace``.
    """
    if torch.compiler.is_compiling() or within_dual_level():
        return True
    recording = torch.is_grad_enabled()
    for t in tensors:  # noqa: SIM110 - as above
        if (recording and t.requires_grad) or is_transformed(t):
            return True
    return False


def can_read_values(A: Tensor) -> bool:
    """Whether the values of ``A`` can be read, and checks are on."""
    return is_concrete(A) and _enabled.get()


# --------------------------------------------------------------------------------------------------
# Shapes and dtypes


DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)


def check_tensor(A: object, caller: str) -> None:
    """Raise unless ``A`` is a tensor."""
    if not isinstance(A, Tensor):
        kind = type(A).__name__
        advice = (
            "; torch.fx.symbolic_trace has no shapes to look at: use torch.export, or make this function "
            "a leaf of your tracer"
        )
        raise TypeError(f"{caller} expects a tensor, got {kind}{advice if kind == 'Proxy' else ''}")


def check_matrix(A: Tensor, caller: str) -> None:
    """Raise unless ``A`` is a tensor ``(..., m, n)`` of single or double precision, real or complex."""
    check_tensor(A, caller)
    if A.dtype not in DTYPES:
        raise TypeError(
            f"{caller} expects float32 or float64, got {A.dtype}; cast with A.float() or A.double() "
            "(complex64 and complex128 are fine, too)"
        )
    if A.dim() < 2:
        raise ValueError(f"{caller} expects (..., m, n), got {tuple(A.shape)}")


def check_square(A: Tensor, caller: str) -> None:
    """Raise unless ``A`` is a tensor ``(..., n, n)`` of a dtype that :func:`check_matrix` takes."""
    check_matrix(A, caller)
    if A.shape[-2] != A.shape[-1]:
        raise ValueError(
            f"{caller} expects (..., n, n), got {tuple(A.shape)}; for rectangular input use svd"
        )


def check_count(k: int, most: int, caller: str, A: Tensor) -> None:
    """Raise unless ``k`` of what ``A`` has that many of can be given."""
    check_at_least("k", k, 1)
    if k > most:
        raise ValueError(
            f"{caller} expects k of at most {most} for shape {tuple(A.shape)}, got {k}"
        )


def check_alike(A: Tensor, B: Tensor, same: bool, caller: str, what: str) -> None:
    """Raise unless two tensors have the same dtype, and shapes that are the ``same`` where they should be."""
    if not same or A.dtype != B.dtype:
        raise ValueError(
            f"{caller} expects {what}, got {tuple(A.shape)} {A.dtype} and {tuple(B.shape)} {B.dtype}"
        )


def lower_triangle(A: Tensor, UPLO: str) -> Tensor:
    """A matrix whose lower triangle is the one of ``A`` that ``UPLO`` names."""
    if UPLO not in ("L", "U", "l", "u"):
        raise ValueError(
            f"UPLO must be 'L' or 'U', the triangle to read, got {UPLO!r}; a gradient rule is given "
            "by name: rule='degenerate'"
        )
    return A.mH if UPLO in ("U", "u") else A


# --------------------------------------------------------------------------------------------------
# Values


def raise_not_finite(caller: str, item: str) -> None:
    """Raise for an item of a batch with NaN or infinite entries."""
    raise ValueError(
        f"{caller}: {item} has NaN or infinite entries; the input already contains them, so check the "
        "computation that produced it"
    )


def is_finite(*tensors: Tensor) -> bool:
    """Whether all entries of all tensors are finite."""
    if len(tensors) > 1 and tensors[0].device.type != "cpu":  # where each look makes the host wait
        total = sum((t.sum() for t in tensors[1:]), tensors[0].sum())
        if cmath.isfinite(total.item()):
            return True
    # A sum costs one pass and no memory; only when it is not finite (overflow counts) look closely.
    for t in tensors:  # noqa: SIM110 - as above
        if not cmath.isfinite(t.sum().item()) and not bool(t.isfinite().all()):
            return False
    return True


MATRIX_ADVICE = "scale the matrices, or raise small eigenvalues with eigenvalue_floor="
VECTOR_ADVICE = "scale the matrices, or choose another gradient rule"


def check_range(
    result: Tensor,
    what: str,
    *sources: Tensor,
    of: object = "",
    item: str = "A",
    advice: str = MATRIX_ADVICE,
) -> None:
    """Raise if a result ``(..., m, n)`` of finite ``sources`` has overflowed: ``what``, or what ``of`` what.

    Infinity would turn into NaN a few products later, where nobody could tell what it came from. What
    is already broken in the sources passes: a scaled loss may overflow. Does nothing where values
    cannot be looked at (:func:`can_read_values`).
    """
    if can_read_values(result) and not is_finite(result) and is_finite(*sources):
        index = first_index(~result.isfinite().flatten(-2).all(-1))
        raise LinAlgError(
            f"{f'{what} {of}'.strip()} overflowed {result.dtype} for {name_item(index, item)}; {advice}"
        )


def first_index(bad: Tensor) -> tuple[int, ...]:
    """Index of the first true entry of ``bad``, a boolean tensor of any shape."""
    return tuple(int(k) for k in bad.nonzero()[0])


def bad_item(bad: Tensor, name: str = "A") -> str | None:
    """The name of the first item that is ``bad`` ``(...)``; None if none is, or nobody may look."""
    if not can_read_values(bad) or not bool(bad.any()):
        return None
    return name_item(first_index(bad), name)


def name_item(index: tuple[int, ...], name: str = "A") -> str:
    """Name one matrix of a batch: ``A`` without batch dimensions, else ``A[3, 1]``."""
    return f"{name}[{', '.join(map(str, index))}]" if index else name
