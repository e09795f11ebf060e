"""The precision that a layer computes in, by the device that it computes on."""

from __future__ import annotations

import functools
import warnings

import torch

WITHOUT_FLOAT64 = frozenset({"mps"})  # Apple's GPUs


def check_compute_dtype(compute_dtype: torch.dtype | None) -> None:
    """Raise unless a layer can compute in it."""
    if compute_dtype not in (None, torch.float32, torch.float64):
        raise ValueError(
            f"compute_dtype must be torch.float32, torch.float64 or None, got {compute_dtype}"
        )


def working_dtype(compute_dtype: torch.dtype | None, device: torch.device) -> torch.dtype:
    """What was asked for; by default float64 where the device has it, and float32 elsewhere.

    >>> working_dtype(None, torch.device("cpu")), working_dtype(torch.float32, torch.device("cpu"))
    (torch.float64, torch.float32)
    """
    if compute_dtype is not None:
        return compute_dtype
    if device.type not in WITHOUT_FLOAT64:
        return torch.float64
    _notice(device.type)
    return torch.float32


def kept_dtype(
    compute_dtype: torch.dtype | None, working: torch.dtype, features: torch.dtype
) -> torch.dtype:
    """By default what is kept of a decomposition has the digits of the features, and no more.

    >>> kept_dtype(None, torch.float64, torch.float32), kept_dtype(None, torch.float64, torch.half)
    (torch.float32, torch.float32)
    >>> kept_dtype(torch.float64, torch.float64, torch.float32)
    torch.float64
    """
    if compute_dtype is not None:
        return working
    return torch.promote_types(features, torch.float32)


@functools.cache
def _notice(device: str) -> None:
    """Said once in a process."""
    warnings.warn(
        f"{device} has no float64, so covariances and their roots are computed in float32 here: eigenvalues "
        "below 1e-7 of the largest are lost. Pass compute_dtype=torch.float32 to silence this warning",
        stacklevel=2,
    )
