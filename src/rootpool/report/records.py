"""Records, flat dicts of numbers and strings, in CSV and JSON files."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from rootpool.files import write_atomically

__all__ = ["Record", "from_json", "read_json", "read_records", "to_json", "write_records"]

# Values are numbers, strings, truth values or None; which of them a key holds is known where it is used.
Record: TypeAlias = dict[str, Any]

_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


# --------------------------------------------------------------------------------------------------
# Formats: text from records, records from text


def to_json(content: Any) -> str:
    """Plain data as strict JSON; numbers that are not finite become strings, which JSON has no numbers for.

    >>> print(to_json({"loss": float("nan")}), end="")
    {
     "loss": "NaN"
    }
    """
    return json.dumps(_named(content), indent=1, allow_nan=False) + "\n"


def _named(value: Any) -> Any:
    """The value with numbers that are not finite as strings."""
    if isinstance(value, Mapping):
        return {key: _named(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_named(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def from_json(text: str) -> Any:
    """What :func:`to_json` wrote, with the numbers that are not finite."""
    return _numbered(json.loads(text))


def _numbered(value: Any) -> Any:
    """The inverse of :func:`_named`."""
    if isinstance(value, dict):
        return {key: _numbered(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbered(item) for item in value]
    return _NOT_FINITE.get(value, value) if isinstance(value, str) else value


def _records_from_json(text: str) -> list[Record]:
    records: list[Record] = from_json(text)
    if not isinstance(records, list) or not all(isinstance(r, dict) for r in records):
        raise ValueError("it is not a list of records")
    return records


def _to_csv(records: Sequence[Record]) -> str:
    columns = list(dict.fromkeys(key for record in records for key in record))
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return out.getvalue()


def _from_csv(text: str) -> list[Record]:
    rows = csv.DictReader(io.StringIO(text, newline=""))
    return [{key: _number(cell) for key, cell in row.items() if cell != ""} for row in rows]


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


_FORMATS: dict[str, tuple[Callable[[Sequence[Record]], str], Callable[[str], list[Record]]]] = {
    ".json": (to_json, _records_from_json),
    ".csv": (_to_csv, _from_csv),
}


def _format(
    path: Path,
) -> tuple[Callable[[Sequence[Record]], str], Callable[[str], list[Record]]]:
    if path.suffix not in _FORMATS:
        raise ValueError(f"records are in files {' or '.join(_FORMATS)}, got {path.name!r}")
    return _FORMATS[path.suffix]


# --------------------------------------------------------------------------------------------------
# Files


def write_records(records: Iterable[Record], path: str | Path) -> None:
    """Write records to a ``.csv`` or ``.json`` file, whole or not at all.

    JSON gives back what was written. CSV has one column for every key of any record; a key that a
    record lacks, or None, is an empty cell and is absent when read; text that looks like a number
    comes back as one.
    """
    path = Path(path)
    text = _format(path)[0](list(records))
    write_atomically(path, text)


def read_records(path: str | Path) -> list[Record]:
    """Read what :func:`write_records` wrote."""
    path = Path(path)
    parse = _format(path)[1]
    try:
        return parse(path.read_text(encoding="utf-8"))
    except (ValueError, TypeError, RecursionError, csv.Error) as error:
        raise ValueError(f"{path} does not contain records ({error})") from error


def read_json(path: str | Path, *keys: str) -> dict[str, Any]:
    """Read a dictionary that was written by :func:`to_json`; it must have at least these keys."""
    try:
        content = from_json(Path(path).read_text(encoding="utf-8"))
        missing = [key for key in keys if key not in content]
        if missing or not isinstance(content, dict):
            raise ValueError(f"it has no {', '.join(missing) or 'keys'}")
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(
            f"{path} is corrupt ({error}); delete it and it will be recomputed"
        ) from error
    return content
