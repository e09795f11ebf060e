"""Files that are whole or absent."""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = ["named_errors", "remove_parts", "write_atomically"]

FULL = (errno.ENOSPC, errno.EDQUOT)


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
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.part")  # of this call alone
    with named_errors(path, part):
        try:
            with open(part, "wb") as file:
                if callable(content):
                    content(file)
                elif isinstance(content, str):
                    file.write(content.encode(errors="replace"))
                else:
                    file.write(content)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
            if hasattr(os, "O_DIRECTORY"):  # let the new name be on the disk as well
                folder = os.open(path.parent, os.O_DIRECTORY)
                try:
                    os.fsync(folder)
                finally:
                    os.close(folder)
        finally:
            part.unlink(missing_ok=True)
    return path


@contextmanager
def named_errors(path: Path, part: Path | None = None) -> Iterator[None]:
    """Let an error name the file and not its part; an error of a full disk also the space."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        # torch.save meets the full disk as an OSError and then says that a position was unexpected.
        reason = error if isinstance(error, OSError) else error.__context__
        if not isinstance(reason, OSError) or reason.errno not in FULL:
            if isinstance(error, OSError) and str(error.filename) == str(part):
                error.filename = str(path)
            raise
        usage = shutil.disk_usage(path.parent)
        space = f"{usage.free / 1e6:.1f} of {usage.total / 1e6:.1f} MB free"
        raise OSError(reason.errno, f"{reason.strerror} ({space})", str(path)) from error


def remove_parts(folder: str | Path) -> None:
    """Remove what killed processes left of files that they were writing to a folder."""
    for part in Path(folder).glob(".*.part"):
        part.unlink(missing_ok=True)
