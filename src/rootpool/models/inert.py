"""PyTorch files as data: nothing in them runs, and nothing swells beyond what the file is.

``torch.load(weights_only=True)`` runs no code, but unpacks compressed entries, however large they say they
are, and lets a pickle of some bytes make gigabytes. So sizes and names are looked at first.
"""

from __future__ import annotations

import os
import pickle
import pickletools
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import torch

__all__ = ["load_inert"]

LONGEST_PICKLE = 1 << 23  # bytes; 200 a tensor are usual, and reading makes some 60 of one
PICKLES_OF_OLD_FILES = (
    5  # before the numbers: what it is, versions, the object, names of the storages
)
# What torch admits and weights do not need: bytearray(n) makes n zeros, and an encoding to hexadecimal
# digits doubles its input, again and again.
SWELLING = ("bytearray", "encode")


def load_inert(path: str | os.PathLike[str]) -> Any:
    """What a PyTorch file holds: tensors, numbers and texts in containers.

    Raises:
        ValueError: the file is damaged, holds anything else, or claims to hold more than it can.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}")
    try:
        with path.open("rb") as file:
            packed = file.read(4) == b"PK\x03\x04"  # as torch decides
            file.seek(0)
            (_check_archive if packed else _check_old)(file, path)
        return torch.load(path, map_location="cpu", weights_only=True)
    except _SwellingError:
        raise
    except pickle.UnpicklingError as error:
        raise ValueError(
            f"{path} does not hold weights alone, and nothing else is loaded, because a pickle can run "
            "any code; if you trust it, load it yourself and save its state_dict"
        ) from error
    except Exception as error:  # torch raises nearly any kind, from KeyError to OSError
        raise ValueError(f"{path} is damaged or no file of weights: {error!r}") from error


class _SwellingError(ValueError):
    pass


def _check_archive(file: BinaryIO, path: Path) -> None:
    size = path.stat().st_size
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        claimed = sum(entry.file_size for entry in entries)
        if claimed > size:
            raise _SwellingError(
                f"{path} has {size} bytes, but its entries claim {claimed}: they are compressed or "
                "overlap, as torch.save never writes them; if you trust it, load and save it yourself"
            )
        for entry in entries:
            if entry.filename.endswith(".pkl"):
                _check_length(entry.file_size, path)
                with archive.open(entry) as stored:
                    _check_pickle(stored, path)


def _check_length(length: int, path: Path) -> None:
    if length > LONGEST_PICKLE:
        raise _SwellingError(
            f"{path} describes its tensors with more than {LONGEST_PICKLE} bytes, which is thousands of "
            "times what networks need; it is no file of weights"
        )


def _check_old(file: BinaryIO, path: Path) -> None:
    """Files of torch before 1.6: pickles one after the other, then numbers."""
    for _ in range(PICKLES_OF_OLD_FILES):
        _check_pickle(file, path)


def _check_pickle(file: Any, path: Path) -> None:
    start = file.tell()
    try:
        for operation, argument, position in pickletools.genops(file):
            _check_length((position or 0) - start, path)
            if operation.name == "GLOBAL" and str(argument).split(" ")[-1] in SWELLING:
                raise _SwellingError(
                    f"{path} calls {argument}, which can make any amount of data from nothing; weights do "
                    "not need it. If you trust it, load it yourself and save its state_dict"
                )
    except _SwellingError:
        raise
    except Exception:  # no pickle: torch says what is wrong
        return
