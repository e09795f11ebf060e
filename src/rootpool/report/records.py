"""Records, flat dicts of numbers and strings, in CSV files; the result of a run in JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

from rootpool.files import write_atomically

__all__ = ["Record", "read_json", "read_records", "to_csv", "write_records"]

# Values are numbers, strings, truth values or None; which of them a key holds is known where it is used.
Record: TypeAlias = dict[str, Any]


def to_csv(records: Iterable[Record]) -> str:
    """Records as a table with a column for every key of any of them."""
    records = list(records)
    columns = list(dict.fromkeys(key for record in records for key in record))
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return out.getvalue()


def _number(cell: str) -> float | str:
    """The number or truth value in a cell, or else its text."""
    if cell in ("True", "False"):
        return cell == "True"
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell


def write_records(records: Iterable[Record], path: str | Path) -> None:
    """Write records to a CSV file, whole or not at all.

    There is one column for every key of any record; a key that a record lacks, or None, is an empty cell
    and is absent when read; text that looks like a number comes back as one.
    """
    write_atomically(path, to_csv(records))


def read_records(path: str | Path) -> list[Record]:
    """Read what :func:`write_records` wrote."""
    path = Path(path)
    try:
        rows = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"), newline=""))
        return [{key: _number(cell) for key, cell in row.items() if cell != ""} for row in rows]
    except (ValueError, TypeError, csv.Error) as error:
        raise ValueError(f"{path} does not contain records ({error})") from error


def read_json(path: str | Path, *keys: str) -> dict[str, Any]:
    """Read a dictionary that has at least these keys."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        missing = [key for key in keys if key not in content]
        if missing or not isinstance(content, dict):
            raise ValueError(f"it has no {', '.join(missing) or 'keys'}")
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(
            f"{path} is corrupt ({error}); delete it and it will be recomputed"
        ) from error
    return content
