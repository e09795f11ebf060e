"""Files that are there as a whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["write_whole"]


def write_whole(path: str | Path, content: str | bytes) -> Path:
    """Write bytes, or text in UTF-8, so that no reader, and no crash, ever sees half of it.

    The folder is made if it is missing. A lone surrogate (a file name in an unknown encoding) becomes
    a question mark.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(part, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode(errors="replace"))
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return path
