"""Weight files: tensors by name and some text, without running anything that a file brings."""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

__all__ = ["read_tensors", "write_tensors"]

# Wrappers put their name before those of the network: DataParallel, Lightning, torch.compile.
_WRAPPERS = ("module.", "model.", "_orig_mod.")


def read_tensors(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors of a safetensors or PyTorch file, and what else it says.

    A PyTorch file may hold the tensors themselves or hold them under ``state_dict``. Prefixes of
    wrappers around the whole network are removed. PyTorch files are read with ``weights_only=True``.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}")
    tensors, rest = _read_safetensors(path) if _is_safetensors(path) else _read_pytorch(path)
    for _ in range(3):
        for wrapper in _WRAPPERS:
            if all(name.startswith(wrapper) for name in tensors):
                tensors = {name.removeprefix(wrapper): value for name, value in tensors.items()}
    return tensors, rest


def write_tensors(
    tensors: Mapping[str, Tensor], path: str | os.PathLike[str], text: Mapping[str, str]
) -> None:
    """Write tensors and text, as safetensors if the name ends so and as a PyTorch file otherwise.

    The file appears under its name when it is complete, so that a full disk or a kill leaves the one
    before in its place.
    """
    path = Path(path)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if path.suffix == ".safetensors":
            kept = {name: value.detach().contiguous() for name, value in tensors.items()}
            safetensors.torch.save_file(kept, unfinished, dict(text))
        else:
            torch.save({**text, "state_dict": dict(tensors)}, unfinished)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def _is_safetensors(path: Path) -> bool:
    """By its content: the length of a header, and the header."""
    with path.open("rb") as file:
        return file.read(9)[8:] == b"{"


def _read_safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    with safetensors.safe_open(path, "pt") as file:
        names = file.keys()  # it is no mapping: iteration fails
        return {name: file.get_tensor(name) for name in names}, file.metadata() or {}


def _read_pytorch(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ValueError(
            f"{path} is not a file of weights alone, and nothing else is loaded, because a pickle can "
            "run any code: if you trust it, load it yourself and save its state_dict"
        ) from error
    found = content.get("state_dict", content) if isinstance(content, dict) else None
    if not isinstance(found, dict) or not any(isinstance(v, Tensor) for v in found.values()):
        raise ValueError(f"{path} holds no tensors by name, at its top or under 'state_dict'")
    rest = {key: value for key, value in content.items() if key != "state_dict"}
    return {
        k: v for k, v in found.items() if isinstance(v, Tensor)
    }, rest if found is not content else {}
