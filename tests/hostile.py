"""Checkpoints that no training wrote."""

from __future__ import annotations

import _codecs
import os
import pickle
import struct
import zipfile
from pathlib import Path

import torch


class RunsCode:
    """Makes a folder when it is unpickled."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


class Zeros:
    """Eight gigabytes when it is unpickled."""

    def __reduce__(self):
        return bytearray, (2**33,)


class Doubled:
    """Twice as many hexadecimal digits when it is unpickled."""

    def __init__(self, value):
        self.value = value

    def __reduce__(self):
        return _codecs.encode, (self.value, "hex_codec")


def doubled(times):
    value = b"x"
    for _ in range(times):
        value = Doubled(value)
    return value


def packed(path: Path, state: dict) -> None:
    """The same file with compressed entries, of which one is blown up to 64 MB of zeros."""
    plain = path.with_suffix(".plain")
    torch.save(state, plain)
    with (
        zipfile.ZipFile(plain) as old,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for entry in old.infolist():
            numbers = entry.filename.endswith("data/0")
            new.writestr(entry.filename, bytes(2**26) if numbers else old.read(entry))
    plain.unlink()


def overlapping(path: Path, state: dict) -> None:
    """Many entries in the directory of the archive that are all the same bytes."""
    torch.save({**state, "x": torch.zeros(2**16)}, path)
    data = path.read_bytes()
    end = data.rindex(b"PK\x05\x06")
    count, size, start = struct.unpack("<HII", data[end + 10 : end + 20])
    directory = data[start : start + size]
    copies = 200
    tail = struct.pack(
        "<4sHHHHIIH", b"PK\x05\x06", 0, 0, count * copies, count * copies, size * copies, start, 0
    )
    path.write_bytes(data[:start] + directory * copies + tail)


def lying(path: Path, state: dict) -> None:
    """An entry that claims 4 GB in the directory of the archive."""
    torch.save(state, path)
    data = bytearray(path.read_bytes())
    for place in (data.index(b"PK\x01\x02"), data.rindex(b"PK\x01\x02")):
        data[place + 24 : place + 28] = struct.pack("<I", 2**32 - 2)
    path.write_bytes(data)


def cut(path: Path, state: dict) -> None:
    torch.save(state, path)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def saved(**extra):
    return lambda path, state: torch.save({**state, **extra}, path)


def saved_old(**extra):
    return lambda path, state: torch.save(
        {**state, **extra}, path, _use_new_zipfile_serialization=False
    )


# What to write, and what is said about it. RunsCode is added where the marker is known.
BOMBS = {
    "compressed": (packed, "entries claim .* they are compressed or overlap"),
    "overlapping": (overlapping, "entries claim .* they are compressed or overlap"),
    "lying": (lying, "entries claim .* they are compressed or overlap"),
    "zeros": (saved(x=Zeros()), r"calls (__builtin__|builtins) bytearray, which can make any"),
    "zeros, old": (saved_old(x=Zeros()), r"calls (__builtin__|builtins) bytearray"),
    "doubled": (saved(x=doubled(40)), "calls _codecs encode, which can make any amount of data"),
    "doubled, old": (saved_old(x=doubled(40)), "calls _codecs encode"),
    "long": (saved(x="x" * 2**24), "describes its tensors with more than 8388608 bytes"),
    "long, old": (saved_old(x="x" * 2**24), "describes its tensors with more than 8388608 bytes"),
    "cut": (cut, "is damaged or no file of weights"),
    "text": (lambda path, state: path.write_text("hello"), "damaged or no|not hold weights alone"),
    "empty": (lambda path, state: path.write_bytes(b""), "is damaged or no file of weights"),
}


def plain_pickle(path: Path, marker: Path) -> None:
    path.write_bytes(pickle.dumps(RunsCode(marker), protocol=2))
