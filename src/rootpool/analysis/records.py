"""Records, flat dicts of numbers and strings: in files, and averaged over groups."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from rootpool.files import write_atomically

__all__ = ["Record", "Value", "mean_by", "read_json", "read_records", "write_records"]

Value: TypeAlias = float | int | str | bool | None
Record: TypeAlias = dict[str, Value]

_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


# --------------------------------------------------------------------------------------------------
# Formats: text from records, records from text


def _to_json(records: Sequence[Record]) -> str:
    """Strict JSON: numbers that are not finite become the strings that JavaScript has for them."""

    def plain(value: Value) -> Value:
        if isinstance(value, float) and not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return value

    rows = [{key: plain(value) for key, value in record.items()} for record in records]
    return json.dumps(rows, indent=1, allow_nan=False) + "\n"


def _from_json(text: str) -> list[Record]:
    return [
        {k: _NOT_FINITE.get(v, v) if isinstance(v, str) else v for k, v in record.items()}
        for record in json.loads(text)
    ]


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


def _number(cell: str) -> Value:
    """The number or truth value that a cell holds, or the cell."""
    if cell in ("True", "False"):
        return cell == "True"
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell


_FORMATS: dict[str, tuple[Callable[[Sequence[Record]], str], Callable[[str], list[Record]]]] = {
    ".json": (_to_json, _from_json),
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
    except (ValueError, TypeError, AttributeError, RecursionError, csv.Error) as error:
        raise ValueError(f"{path} holds no records ({error})") from error


def read_json(path: str | Path, *keys: str) -> dict[str, Any]:
    """A dictionary, with at least these keys, from a file that we keep results in."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        missing = [key for key in keys if key not in content]
        if missing or not isinstance(content, dict):
            raise ValueError(f"it has no {', '.join(missing) or 'keys'}")
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} is damaged ({error}); remove it, and it is made anew") from error
    return content


# --------------------------------------------------------------------------------------------------


def mean_by(records: Iterable[Record], *keys: str) -> list[Record]:
    """Means of all numbers over the records that agree in ``keys``, in order of appearance.

    >>> mean_by(
    ...     [{"epoch": 0, "rank": 3}, {"epoch": 0, "rank": 4}, {"epoch": 1, "rank": 5}], "epoch"
    ... )
    [{'epoch': 0, 'rank': 3.5}, {'epoch': 1, 'rank': 5.0}]
    """
    groups: dict[tuple[Value, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(tuple(record.get(key) for key in keys), []).append(record)
    return [
        {**dict(zip(keys, which, strict=True)), **_means(g, keys)} for which, g in groups.items()
    ]


def _means(group: Sequence[Record], without: Sequence[str]) -> Record:
    columns: dict[str, list[float]] = {}
    for record in group:
        for key, value in record.items():
            if key not in without and isinstance(value, int | float):
                columns.setdefault(key, []).append(value)
    return {key: sum(values) / len(values) for key, values in columns.items()}
