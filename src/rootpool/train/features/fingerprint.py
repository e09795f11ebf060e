"""What features depend on: weights, network, transform and files, as plain data to make a key of."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

__all__ = ["fingerprint"]


def fingerprint(
    network: nn.Module, transform: Callable[..., Any], files: Sequence[Path]
) -> dict[str, Any]:
    """A description that changes with everything that the features depend on.

    Files count by their names below their common folder, their sizes and their times of change; so a data
    set that is moved as a whole keeps its description.
    """
    text = repr(transform)
    if re.search(r"\bat 0x[0-9a-f]+", text):
        raise ValueError(
            f"the transform {text} does not say what it does, only where it is; use torchvision's "
            "transforms, or a dataclass, whose repr holds all settings"
        )
    return {
        "weights": _hash_weights(network),
        "network": hashlib.sha256(str(network).encode()).hexdigest(),
        "transform": text,
        "files": _hash_files(files),
        "images": len(files),
    }


def _hash_weights(network: nn.Module) -> str:
    """SHA-256 of names, types, shapes and bytes of all parameters and buffers."""
    digest = hashlib.sha256()
    for name, tensor in network.state_dict().items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)};".encode())
        data = tensor.detach().cpu().contiguous().flatten().view(torch.uint8)
        digest.update(data.numpy().data)
    return digest.hexdigest()


def _hash_files(files: Sequence[Path]) -> str:
    common = os.path.commonpath([file.absolute().parent for file in files])
    digest = hashlib.sha256()
    for file in files:
        state = file.stat()
        name = os.path.relpath(file.absolute(), common)
        digest.update(f"{name} {state.st_size} {state.st_mtime_ns}\n".encode())
    return digest.hexdigest()
