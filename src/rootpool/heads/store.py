"""Arrays on disk that are filled block by block, with a journal that vouches for each block.

    description.json   what the arrays hold, and their shapes
    <name>.npy         float16, memory-mapped
    blocks.jsonl       one line a finished block of rows: where it is, and a checksum of each array

A block counts as finished when its line is there and its data have these checksums. So work that was
interrupted anywhere goes on with the first unfinished block, and damaged data are computed again.
"""

from __future__ import annotations

import json
import logging
import math
import os
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import open_memmap

from rootpool.files import named_if_full, write_atomically

__all__ = ["BlockStore"]

log = logging.getLogger(__name__)

ABOUT, JOURNAL = "description.json", "blocks.jsonl"


@dataclass(frozen=True)
class BlockStore:
    """Arrays of equally many rows in a directory of their own."""

    directory: Path
    arrays: Mapping[str, np.memmap[Any, Any]]

    @classmethod
    def open(
        cls,
        directory: Path,
        description: Mapping[str, Any],
        shapes: Callable[[], Mapping[str, Sequence[int]]],
    ) -> BlockStore:
        """What is in the directory, or new arrays where nothing usable is.

        Args:
            directory: is deleted when it holds a damaged store.
            description: is written beside new arrays.
            shapes: of new arrays, called only when they are needed.
        """
        try:
            found = json.loads((directory / ABOUT).read_text())
            known = found.pop("shapes")
            if found != description or len({shape[0] for shape in known.values()}) != 1:
                raise ValueError("it describes something else")
            return cls(directory, {name: _reopen(directory, name, known[name]) for name in known})
        except FileNotFoundError:
            pass
        except (
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            OSError,
            RecursionError,
        ) as error:
            log.warning("%s is damaged (%s); making it anew", directory, error)
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        new = {name: list(shape) for name, shape in shapes().items()}
        try:
            arrays = {name: _create(directory, name, new[name]) for name in new}
        except OSError:
            shutil.rmtree(directory)
            raise
        # Last, and at once: where the description is, the arrays are too.
        write_atomically(directory / ABOUT, json.dumps({**description, "shapes": new}, indent=1))
        return cls(directory, arrays)

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))

    def missing(self, block: int) -> list[slice]:
        """Blocks of that many rows that are still to be filled."""
        finished = np.zeros(len(self), bool)
        damaged = 0
        for rows, checksums in self._journal():
            finished[rows] = intact = self._checksums(rows) == checksums
            damaged += not intact
        if damaged:
            log.warning("%d blocks of %s are damaged; computing again", damaged, self.directory)
        blocks = (slice(k, min(k + block, len(self))) for k in range(0, len(self), block))
        return [rows for rows in blocks if not finished[rows].all()]

    def finish(self, rows: slice) -> None:
        """Vouch for rows that have been filled."""
        for array in self.arrays.values():
            array.flush()  # the data are on the disk before the line that vouches for them
        line = json.dumps([rows.start, rows.stop, self._checksums(rows)])
        path = self.directory / JOURNAL
        with named_if_full(path), path.open("a") as journal:
            journal.write(f"\n{line}\n")  # a line that was cut off ends before it
            journal.flush()
            os.fsync(journal.fileno())

    def read_only(self) -> dict[str, np.memmap[Any, Any]]:
        """The arrays, safe from being written to."""
        return {name: _open(self.directory, name, a.shape, "r") for name, a in self.arrays.items()}

    def _checksums(self, rows: slice) -> dict[str, int]:
        return {name: zlib.crc32(array[rows].data) for name, array in self.arrays.items()}

    def _journal(self) -> Iterator[tuple[slice, dict[str, int]]]:
        """The last line about each block."""
        path = self.directory / JOURNAL
        lines = path.read_text(errors="replace").splitlines() if path.exists() else []
        last: dict[tuple[int, int], dict[str, int]] = {}
        for line in lines:
            try:
                start, stop, checksums = json.loads(line)
                last[int(start), int(stop)] = checksums
            except (ValueError, TypeError):  # an empty line, or one that was cut off
                continue
        for (start, stop), checksums in last.items():
            yield slice(start, stop), checksums


def _create(directory: Path, name: str, shape: Sequence[int]) -> np.memmap[Any, Any]:
    """A new array whose whole space on the disk is its own.

    Otherwise the file would have holes, and a disk that is full when one is filled through the memory
    map ends the process by a signal (SIGBUS), without an error.
    """
    path = directory / f"{name}.npy"
    with named_if_full(path, needs=2 * math.prod(shape)):
        array = _open(directory, name, shape, "w+")
        if hasattr(os, "posix_fallocate"):  # not on Windows and macOS
            with path.open("r+b") as file:
                os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return array


def _reopen(directory: Path, name: str, shape: Sequence[int]) -> np.memmap[Any, Any]:
    """An array that is there; the file is not written to if it is not what it should be."""
    path = directory / f"{name}.npy"
    if path.parent != directory or path.is_symlink():
        raise ValueError(f"{name!r} leads out of it")
    # With "r+", numpy lengthens a file to what its header claims.
    _open(directory, name, shape, "r")
    return _open(directory, name, shape)


def _open(
    directory: Path, name: str, shape: Sequence[int], mode: str = "r+"
) -> np.memmap[Any, Any]:
    array: np.memmap[Any, Any] = open_memmap(
        directory / f"{name}.npy", mode, dtype=np.float16, shape=tuple(shape)
    )
    if array.shape != tuple(shape) or array.dtype != np.float16:
        raise ValueError(f"{name}.npy has {array.shape} {array.dtype}, not {tuple(shape)} float16")
    return array
