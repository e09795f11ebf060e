"""What the paper printed: every cell of its tables and the claim of every table and figure."""

from __future__ import annotations

import functools
import importlib.resources
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import yaml

from rootpool.analysis import Record
from rootpool.nn import METHODS

__all__ = ["Cell", "Figure", "Published", "Row", "Statement", "Table", "load_published"]

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
    """A row: its name, the method it is about, the group it stands in (a network) and its cells."""

    name: str
    method: str
    cells: tuple[Cell, ...]
    group: str | None = None


@dataclass(frozen=True)
class Table:
    """A table of the paper."""

    id: str
    number: int
    label: str
    section: str
    caption: str
    claim: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def entry(self) -> str:
        """How the report and the command line call it."""
        return f"table:{self.id}"

    def cell(self, row: str, column: str, group: str | None = None) -> Cell:
        """The cell in a row and column; ``group`` where rows of several groups share names."""
        rows = [r for r in self.rows if r.name == row and group in (None, r.group)]
        if len(rows) != 1 or column not in self.columns:
            raise KeyError(
                f"{self.entry} has {len(rows)} rows {row!r}, group {group!r}, and columns "
                f"{', '.join(self.columns)}; asked for {column!r}"
            )
        return rows[0].cells[self.columns.index(column)]

    def records(self) -> list[Record]:
        """One record for each cell."""
        return [
            {
                "table": self.id,
                "group": row.group,
                "row": row.name,
                "method": row.method,
                "column": column,
                "printed": cell.text,
                "published": cell.value,
            }
            for row in self.rows
            for column, cell in zip(self.columns, row.cells, strict=True)
        ]


@dataclass(frozen=True)
class Figure:
    """A figure of the paper, of which there is only what it claims."""

    id: str
    number: int
    label: str
    section: str
    panels: tuple[str, ...]
    claim: str

    @property
    def entry(self) -> str:
        """How the report and the command line call it."""
        return f"figure:{self.id}"


@dataclass(frozen=True)
class Statement:
    """A number of the text."""

    id: str
    value: float
    section: str
    text: str


@dataclass(frozen=True)
class Published:
    """The whole file: by id, in the order of the paper."""

    source: Mapping[str, str]
    tables: Mapping[str, Table]
    figures: Mapping[str, Figure]
    statements: Mapping[str, Statement]


# --------------------------------------------------------------------------------------------------
# From text


def _take(entry: Mapping[str, Any], where: str, required: str, optional: str = "") -> None:
    """Raise unless the keys of an entry are the required ones, and perhaps the optional ones."""
    needed, allowed = set(required.split()), set(f"{required} {optional}".split())
    if not isinstance(entry, dict) or not needed <= set(entry) <= allowed:
        got = sorted(entry) if isinstance(entry, dict) else entry
        raise ValueError(f"{where} must have {', '.join(sorted(needed))}, got {got}")


def _row(entry: Mapping[str, Any], columns: Sequence[str], words: Sequence[str], where: str) -> Row:
    _take(entry, f"a row of {where}", "name method cells", "group")
    if entry["method"] not in {*METHODS, "gap"}:
        raise ValueError(f"{where}, row {entry['name']!r}: unknown method {entry['method']!r}")
    if len(entry["cells"]) != len(columns):
        raise ValueError(
            f"{where}, row {entry['name']!r}: {len(entry['cells'])} cells for {len(columns)} columns"
        )
    cells = tuple(
        Cell(text, None) if column in words else Cell.number(text)
        for column, text in zip(columns, entry["cells"], strict=True)
    )
    return Row(entry["name"], entry["method"], cells, entry.get("group"))


def _table(id: str, entry: Mapping[str, Any]) -> Table:
    where = f"table:{id}"
    _take(entry, where, "number label section caption claim columns rows", "words")
    columns, words = tuple(entry["columns"]), entry.get("words", [])
    if len(set(columns)) < len(columns) or not set(words) <= set(columns):
        raise ValueError(f"{where}: names of columns must differ, and words be some of them")
    rows = tuple(_row(row, columns, words, where) for row in entry["rows"])
    names = [(row.group, row.name) for row in rows]
    if len(set(names)) < len(names):
        raise ValueError(f"{where}: names of rows must differ within a group, got {names}")
    label, section, caption = entry["label"], entry["section"], entry["caption"]
    number = int(entry["number"])
    return Table(id, number, label, section, caption, entry["claim"], columns, rows)


def _figure(id: str, entry: Mapping[str, Any]) -> Figure:
    _take(entry, f"figure:{id}", "number label section panels claim")
    panels = tuple(entry["panels"])
    return Figure(
        id, int(entry["number"]), entry["label"], entry["section"], panels, entry["claim"]
    )


def _statement(id: str, entry: Mapping[str, Any]) -> Statement:
    _take(entry, f"statement {id}", "value section text")
    value = Cell.number(entry["value"]).value
    if value is None:
        raise ValueError(f"statement {id} must have a number, got {entry['value']!r}")
    return Statement(id, value, entry["section"], entry["text"])


def parse_published(text: str) -> Published:
    """Make numbers of the text of ``published.yaml``; raise for what is not as it should be."""
    data = yaml.load(text, Loader=yaml.BaseLoader)  # scalars stay as they are printed
    _take(data, "published.yaml", "source tables figures statements")
    tables = {id: _table(id, entry) for id, entry in data["tables"].items()}
    figures = {id: _figure(id, entry) for id, entry in data["figures"].items()}
    for kind, found in (("tables", tables), ("figures", figures)):
        numbers = [item.number for item in found.values()]
        if numbers != list(range(1, len(numbers) + 1)):
            raise ValueError(f"the {kind} must be numbered in order from 1, got {numbers}")
    statements = {id: _statement(id, entry) for id, entry in data["statements"].items()}
    return Published(data["source"], tables, figures, statements)


@functools.cache
def load_published() -> Published:
    """The paper's numbers.

    >>> load_published().tables["alexnet"].cell("SVD-Pade", "hybrid final top-1").value
    47.76
    """
    file = importlib.resources.files(__package__) / "published.yaml"
    return parse_published(file.read_text(encoding="utf-8"))
