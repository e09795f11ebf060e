"""Files that are whole or absent."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

__all__ = ["write_atomically"]


def write_atomically(path: str | Path, content: str | bytes | Callable[[BinaryIO], object]) -> None:
    """Write a file that appears under its name only when it is complete and on the disk.

    A process killed in the middle, or a full disk, leaves the earlier file of that name untouched. The
    temporary file is in the same folder, because only within one file system is a rename atomic.

    Args:
        path: the file; its folder is made where it is missing.
        content: text (as UTF-8), bytes, or a function that writes to the open file.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            if callable(content):
                content(file)
            else:
                file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        # A temporary file is for its owner alone; this one gets the rights of any new file.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(partial, 0o666 & ~mask)
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(partial)
        raise
