"""Measurements that take long, kept in files: one key of everything that their numbers depend on."""

from __future__ import annotations

import ast
import functools
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rootpool.files import write_atomically
from rootpool.report import Record
from rootpool.train.keys import stable_key, versions

__all__ = ["Kept"]


@dataclass(frozen=True)
class Kept:
    """A folder of measured records."""

    folder: Path

    def __call__(
        self, name: str, made_from: Any, compute: Callable[[], Sequence[Record]]
    ) -> list[Record]:
        """The records of a measurement from their file, if the same code made them from the same.

        Args:
            name: of the measurement.
            made_from: plain data that the records depend on besides the code: keys of runs, settings.
            compute: measures.
        """
        key = stable_key([name, made_from, versions(), studies_digest()])
        file = self.folder / f"{name.replace(':', '-')}-{key}.json"
        if not file.is_file():
            write_atomically(file, json.dumps(list(compute()), indent=1))
        try:
            records: list[Record] = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(
                f"{file} is damaged ({error}); delete it and run this again"
            ) from error
        return records


@functools.cache
def studies_digest(root: Path = Path(__file__).parents[1]) -> str:
    """A hash of the code of the studies without comments: other code may measure other numbers."""
    digest = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        digest.update(ast.dump(ast.parse(file.read_text(encoding="utf-8"))).encode())
    return digest.hexdigest()[:16]
