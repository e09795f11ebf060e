"""Records, flat dicts of numbers and strings, in CSV files; settings in YAML."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from rootpool.files import write_atomically

if TYPE_CHECKING:
    from importlib.abc import Traversable  # in importlib.resources.abc only since Python 3.11

__all__ = [
    "Record",
    "flatten",
    "parse_yaml",
    "read_records",
    "read_yaml",
    "to_csv",
    "to_yaml",
    "write_records",
]

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


def read_yaml(file: Traversable) -> dict[str, Any]:
    """The settings in a YAML file.

    Raises:
        ValueError: the file is damaged, or holds something else.
    """
    try:
        content = parse_yaml(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file} is not YAML: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{file} does not contain settings: it has no keys such as model or data")
    return content


def parse_yaml(text: str) -> Any:
    """A value in YAML, in which 1e-3 is a number; to PyYAML, which wants 1.0e-3, it is text.

    >>> parse_yaml("{bound: 1e8, name: 1e8 or more}")
    {'bound': 100000000.0, 'name': '1e8 or more'}
    """
    import yaml  # not needed for tables

    try:
        return yaml.load(text, _with_numbers(yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def to_yaml(value: Any) -> str:
    """A value in YAML that :func:`parse_yaml` reads back to the same."""
    import yaml

    dumper = _with_numbers(yaml.SafeDumper)
    text: str = yaml.dump(value, Dumper=dumper, sort_keys=False, allow_unicode=True)
    return text


def _with_numbers(kind: Any) -> Any:
    changed: Any = type(kind.__name__, (kind,), {})
    number = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$")
    changed.add_implicit_resolver("tag:yaml.org,2002:float", number, list("-+.0123456789"))
    return changed


def flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings by dotted key.

    >>> flatten({"model": {"lr": 0.1}, "seed": 0})
    {'model.lr': 0.1, 'seed': 0}
    """
    found: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            found |= flatten(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found
