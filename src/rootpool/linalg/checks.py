"""What is said about input that cannot be worked with: what was wrong, what was got, what to try."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.linalg import LinAlgError

__all__ = [
    "VECTOR_ADVICE",
    "check_matrix",
    "check_range",
    "check_square",
    "first_index",
    "is_finite",
    "is_plain",
    "name_item",
    "raise_not_finite",
]


def is_plain(A: Tensor) -> bool:
    """Whether values can be looked at here: no tracer, no vmap, no fake or wrapped tensor."""
    return (
        not torch.compiler.is_compiling()
        and type(A) in (Tensor, torch.nn.Parameter)
        and not torch._C._functorch.is_functorch_wrapped_tensor(A)
    )


def check_matrix(A: Tensor, caller: str) -> None:
    """Raise unless ``A`` is a tensor ``(..., m, n)`` of float32 or float64."""
    if not isinstance(A, Tensor):
        raise TypeError(f"{caller} expects a tensor, got {type(A).__name__}")
    if A.dtype not in (torch.float32, torch.float64):
        raise TypeError(
            f"{caller} expects float32 or float64, got {A.dtype}; "
            + (
                "complex matrices are not supported, use torch.linalg"
                if A.is_complex()
                else "cast with A.float() or A.double()"
            )
        )
    if A.dim() < 2:
        raise ValueError(f"{caller} expects (..., m, n), got {tuple(A.shape)}")


def check_square(A: Tensor, caller: str) -> None:
    """Raise unless ``A`` is a tensor ``(..., n, n)`` of float32 or float64."""
    check_matrix(A, caller)
    if A.shape[-2] != A.shape[-1]:
        raise ValueError(
            f"{caller} expects (..., n, n), got {tuple(A.shape)}; for rectangular input use svd"
        )


def raise_not_finite(caller: str, item: str) -> None:
    """Raise for an item of a batch with NaN or infinite entries."""
    raise ValueError(
        f"{caller}: {item} has NaN or infinite entries; the matrix was broken before it came here, "
        "look at what made it"
    )


def is_finite(*tensors: Tensor) -> bool:
    """Whether all entries of all tensors are finite."""
    # A sum costs one pass and no memory; only when it is not finite (overflow counts) look closely.
    return all(math.isfinite(t.sum().item()) or bool(t.isfinite().all()) for t in tensors)


MATRIX_ADVICE = "scale the matrices, or raise small eigenvalues with eigenvalue_floor="
VECTOR_ADVICE = "scale the matrices, or choose another gradient rule"


def check_range(
    result: Tensor, what: str, *sources: Tensor, item: str = "A", advice: str = MATRIX_ADVICE
) -> None:
    """Raise if a result ``(..., m, n)`` of finite ``sources`` has overflowed.

    Infinity would turn into NaN a few products later, where nobody could tell what it came from. What is
    already broken in the sources (a scaled loss may overflow) passes.
    """
    if is_finite(result) or not is_finite(*sources):
        return
    index = first_index(~result.isfinite().flatten(-2).all(-1))
    raise LinAlgError(
        f"{what} at {name_item(index, item)} is beyond the range of {result.dtype}; {advice}"
    )


def first_index(bad: Tensor) -> tuple[int, ...]:
    """Index of the first true entry of ``bad``, a boolean tensor of any shape."""
    return tuple(int(k) for k in bad.nonzero()[0])


def name_item(index: tuple[int, ...], name: str = "A") -> str:
    """Name one matrix of a batch: ``A`` without batch dimensions, else ``A[3, 1]``."""
    return f"{name}[{', '.join(map(str, index))}]" if index else name
