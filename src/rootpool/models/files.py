"""Weight files: tensors by name, read and written without ever executing what a file contains."""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from rootpool.files import write_atomically

# Where training scripts put the weights ...
_PLACES = ("state_dict", "model")
# ... and what wrappers put before all names: DataParallel, Lightning modules, torch.compile.
_WRAPPERS = ("module.", "model.", "_orig_mod.")


def load_weights_only(path: str | os.PathLike[str]) -> Any:
    """Load a PyTorch file on the CPU: tensors, numbers and text in containers. No code is executed.

    Raises:
        ValueError: the file contains anything else, or is damaged.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}")
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ValueError(
            f"{path} contains more than weights, and nothing else is loaded, because a pickle can run "
            "any code; if you trust it, load it yourself and save its state_dict"
        ) from error
    except Exception as error:  # torch raises nearly any kind, from KeyError to OSError
        raise ValueError(f"{path} is damaged or not a file of weights: {error!r}") from error


def read_tensors(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors of a safetensors or PyTorch file by name, and whatever else it contains.

    A PyTorch file may have the tensors at its top level, under ``state_dict`` or under ``model``, and is
    read with ``weights_only=True``. Prefixes of wrappers around the whole network are removed.

    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/net.pt"
    >>> torch.save({"state_dict": {"weight": torch.ones(2)}, "epoch": 3}, path)
    >>> read_tensors(path)
    ({'weight': tensor([1., 1.])}, {'epoch': 3})
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}")
    tensors, rest = _read_safetensors(path) if _is_safetensors(path) else _read_pytorch(path)
    return _unwrapped(tensors), rest


def _is_safetensors(path: Path) -> bool:
    """Recognise safetensors by content: eight bytes for the length of a header, then the header."""
    with path.open("rb") as file:
        return file.read(9)[8:] == b"{"


def _read_safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    try:
        with safetensors.safe_open(path, "pt") as file:
            names = file.keys()  # not a mapping: iteration fails
            return {name: file.get_tensor(name) for name in names}, file.metadata() or {}
    except safetensors.SafetensorError as error:
        raise ValueError(f"{path} is damaged or not a file of weights: {error}") from error


def _read_pytorch(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    content = load_weights_only(path)
    if not isinstance(content, dict):
        raise ValueError(f"{path} contains a {type(content).__name__}, not tensors by name")
    place = next((key for key in _PLACES if isinstance(content.get(key), dict)), None)
    found = content if place is None else content[place]
    tensors = {key: value for key, value in found.items() if isinstance(value, Tensor)}
    if not tensors:
        raise ValueError(f"{path} has no tensors by name, at its top level or under 'state_dict'")
    return tensors, {key: v for key, v in content.items() if key not in (place, *tensors)}


def _unwrapped(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    for wrapper in _WRAPPERS:
        if tensors and all(name.startswith(wrapper) for name in tensors):
            return _unwrapped({name.removeprefix(wrapper): t for name, t in tensors.items()})
    return tensors


def write_tensors(
    tensors: Mapping[str, Tensor], path: str | os.PathLike[str], text: Mapping[str, str]
) -> None:
    """Write tensors and text: safetensors if the name ends in ``.safetensors``, else a PyTorch file.

    The file appears under its name when it is complete; a full disk or a kill leaves the previous one.
    """
    path = Path(path)

    def write(file: BinaryIO) -> None:
        if path.suffix == ".safetensors":
            kept = {name: value.detach().contiguous() for name, value in tensors.items()}
            safetensors.torch.save_file(
                kept, file.name, dict(text)
            )  # it does not take an open file
        else:
            torch.save({**text, "state_dict": dict(tensors)}, file)

    write_atomically(path, write)
