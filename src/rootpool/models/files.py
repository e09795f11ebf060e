"""Weight files: tensors by name and what else is said, without running anything that a file brings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import safetensors
import safetensors.torch
import torch
from torch import Tensor
from torch.nn import Parameter

from rootpool.files import write_atomically

from .inert import load_inert

__all__ = ["read_tensors", "write_tensors"]

# Where training scripts put the weights ...
_PLACES = ("state_dict", "model")
# ... and what wrappers put before all names: DataParallel, Lightning modules, torch.compile.
_WRAPPERS = ("module.", "model.", "_orig_mod.")

PLAIN = (torch.strided, "cpu", False, False)
SHARED = 4  # times that a storage may be used on average: layers with common weights


def read_tensors(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors of a safetensors or PyTorch file by name, and what else it holds.

    A PyTorch file may hold the tensors at its top, under ``state_dict`` or under ``model``, and is read
    with ``weights_only=True``. Prefixes of wrappers around the whole network are removed.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}")
    tensors, rest = _read_safetensors(path) if _is_safetensors(path) else _read_pytorch(path)
    return _unwrapped(tensors), rest


def _is_safetensors(path: Path) -> bool:
    """By its content: eight bytes for the length of a header, and the header."""
    with path.open("rb") as file:
        return file.read(9)[8:] == b"{"


def _read_safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    try:
        with safetensors.safe_open(path, "pt") as file:
            names = file.keys()  # it is no mapping: iteration fails
            return {name: file.get_tensor(name) for name in names}, file.metadata() or {}
    except safetensors.SafetensorError as error:
        raise ValueError(f"{path} is damaged or no file of weights: {error}") from error


def _read_pytorch(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    content = load_inert(path)
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds a {type(content).__name__}, not tensors by name")
    place = next((key for key in _PLACES if isinstance(content.get(key), dict)), None)
    found = content if place is None else content[place]
    tensors = {key: value for key, value in found.items() if isinstance(value, Tensor)}
    if not tensors:
        raise ValueError(f"{path} holds no tensors by name, at its top or under 'state_dict'")
    check_plain(tensors, path)
    return tensors, {key: v for key, v in content.items() if key not in (place, *tensors)}


def check_plain(tensors: Mapping[str, Any], path: Path) -> None:
    """Raise unless each is a dense tensor, and all together no more than the file can hold.

    A tensor with strides of zero, or many of one storage, are larger than what is stored.
    """
    odd = [
        name
        for name, t in tensors.items()
        if type(t) not in (Tensor, Parameter)
        or (t.layout, t.device.type, t.is_quantized, t.is_nested) != PLAIN
    ]
    if odd:
        raise ValueError(f"{path} holds {', '.join(odd[:5])}, which are no plain tensors")
    size, claimed = path.stat().st_size, sum(t.nbytes for t in tensors.values())
    if claimed > SHARED * size:
        raise ValueError(
            f"{path} has {size} bytes, but its tensors claim {claimed}: they are views of few numbers; "
            "if you trust it, save them with .contiguous()"
        )


def _unwrapped(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    for wrapper in _WRAPPERS:
        if tensors and all(name.startswith(wrapper) for name in tensors):
            return _unwrapped({name.removeprefix(wrapper): t for name, t in tensors.items()})
    return tensors


def write_tensors(
    tensors: Mapping[str, Tensor], path: str | os.PathLike[str], text: Mapping[str, str]
) -> None:
    """Write tensors and text, as safetensors if the name ends so and as a PyTorch file otherwise.

    The file appears under its name when it is complete: a full disk or a kill leaves the one before.
    """
    path = Path(path)

    def write(file: BinaryIO) -> None:
        if path.suffix == ".safetensors":
            kept = {name: value.detach().contiguous() for name, value in tensors.items()}
            safetensors.torch.save_file(kept, file.name, dict(text))  # it takes no open file
        else:
            torch.save({**text, "state_dict": dict(tensors)}, file)

    write_atomically(path, write)
