"""What the paper printed: every cell of its tables, and numbers of its text."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import yaml

__all__ = ["Cell", "PrintedTable", "Published", "Row", "load_published", "parse_published"]

MISSING = "/"


@dataclass(frozen=True)
class Cell:
    """One cell as printed, and its number: None for words and for ``/``.

    >>> Cell.number("22.60").unit
    0.01
    >>> Cell.number("3.41e14").unit
    1000000000000.0
    """

    text: str
    value: float | None

    @classmethod
    def number(cls, text: str) -> Cell:
        if text == MISSING:
            return cls(text, None)
        try:
            value = float(Decimal(text))
        except InvalidOperation:
            value = math.nan
        if math.isnan(value):
            raise ValueError(f"a cell holds a number, 'inf' or '/', got {text!r}")
        return cls(text, value)

    @property
    def unit(self) -> float | None:
        """One unit of the last printed digit; None where there is none."""
        if self.value is None or math.isinf(self.value):
            return None
        return 10.0 ** int(Decimal(self.text).as_tuple().exponent)


@dataclass(frozen=True)
class Row:
    """A row of a table: its printed name, its method, a cell for each column, the part of the table that it
    is in (such as a network), and what else a run must have to be measured for it."""

    name: str
    method: str
    cells: Mapping[str, Cell]
    group: str | None = None
    tags: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PrintedTable:
    """A table; ``measures`` says for a column which runs and which number of them it holds."""

    number: int
    label: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Row]
    measures: Mapping[str, Mapping[str, str]]

    @property
    def methods(self) -> list[str]:
        """The methods of all rows."""
        return list(dict.fromkeys(row.method for row in self.rows))

    def cell(self, row: str, column: str, group: str | None = None) -> Cell:
        """The cell in a row and column; ``group`` where rows of several groups share names."""
        found = [r for r in self.rows if r.name == row and group in (None, r.group)]
        if len(found) != 1 or column not in self.columns:
            raise KeyError(
                f"{self.label} has {len(found)} rows {row!r} of {group!r} with {column!r}"
            )
        return found[0].cells[column]


@dataclass(frozen=True)
class Published:
    """The whole file: tables and numbers of the text by name."""

    tables: Mapping[str, PrintedTable]
    statements: Mapping[str, float]


def _table(name: str, given: Mapping[str, Any]) -> PrintedTable:
    columns, words = given["columns"], given.get("words", [])
    measures = given.get("measures", {})
    if len(set(columns)) < len(columns) or not {*words, *measures} <= set(columns):
        raise ValueError(f"{name}: columns need different names; words and measures name columns")
    rows = [_row(name, row, columns, words) for row in given["rows"]]
    names = [(row.group, row.name) for row in rows]
    if len(set(names)) < len(names):
        raise ValueError(f"{name}: names of rows must differ within a group, got {names}")
    caption = given["caption"]
    return PrintedTable(int(given["number"]), given["label"], caption, columns, rows, measures)


def _row(table: str, given: Mapping[str, Any], columns: Sequence[str], words: Sequence[str]) -> Row:
    if len(given["cells"]) != len(columns):
        raise ValueError(
            f"{table}, row {given['name']!r}: {len(given['cells'])} cells for {len(columns)} columns"
        )
    cells = {
        column: Cell(text, None) if column in words else Cell.number(text)
        for column, text in zip(columns, given["cells"], strict=True)
    }
    tags = {tag: int(value) for tag, value in given.get("tags", {}).items()}
    return Row(given["name"], given["method"], cells, given.get("group"), tags)


def parse_published(text: str) -> Published:
    """Read the text of ``published.yaml``; raise ``ValueError`` for what is wrong in it."""
    data = yaml.load(text, Loader=yaml.BaseLoader)  # scalars stay as they are printed
    tables = {name: _table(name, given) for name, given in data["tables"].items()}
    numbers = [table.number for table in tables.values()]
    if numbers != list(range(1, len(numbers) + 1)):
        raise ValueError(f"the tables must be numbered in order from 1, got {numbers}")
    said = {name: float(given["value"]) for name, given in data["statements"].items()}
    return Published(tables, said)


@functools.cache
def load_published() -> Published:
    """The paper's numbers.

    >>> load_published().tables["alexnet"].cell("SVD-Pade", "hybrid final top-1").value
    47.76
    """
    file = Path(__file__).with_name("published.yaml")
    return parse_published(file.read_text(encoding="utf-8"))
