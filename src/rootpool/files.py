"""Files that are whole or absent."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

__all__ = ["write_atomically"]


def write_atomically(path: str | Path, content: str | bytes | Callable[[BinaryIO], object]) -> Path:
    """Write a file that appears under its name only when it is complete and on the disk.

    A process killed in the middle, or a full disk, leaves the earlier file of that name untouched. The
    part is written in the same folder, because only within one file system is a rename atomic.

    Args:
        path: the file; its folder is made where it is missing.
        content: bytes, a function that writes to the open file, or text (as UTF-8; a lone surrogate,
            from a file name in an unknown encoding, becomes a question mark).
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(part, "wb") as file:
            if callable(content):
                content(file)
            else:
                file.write(
                    content.encode(errors="replace") if isinstance(content, str) else content
                )
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return path
