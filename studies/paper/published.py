"""What the paper printed: every cell of its tables, and the claim of every table and figure."""

from __future__ import annotations

import functools
import importlib.resources
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any, ClassVar, get_args

import yaml

from .questions import Judge, Question, Tags

__all__ = [
    "Cell",
    "Figure",
    "Published",
    "Row",
    "Source",
    "Statement",
    "Table",
    "TextClaim",
    "check_entry",
    "load_published",
    "read_questions",
]

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
    """A row of a table.

    Args:
        name: as printed.
        method: the method it is about.
        cells: one for each column.
        group: the part of the table it stands in, such as a network.
        tags: what else a run must have to be measured for this row, such as the warm-up.
    """

    name: str
    method: str
    cells: tuple[Cell, ...]
    group: str | None = None
    tags: Tags = field(default_factory=dict)


# --------------------------------------------------------------------------------------------------
# Tables, figures and claims of the text


@dataclass(frozen=True)
class Source:
    """A place of the paper that makes a claim.

    Args:
        id: its name here.
        section: where it stands in the paper.
        claim: in our words.
        methods: those that it is about, and over which its claim is judged.
        questions: what its claim is judged by, besides what is measured in code.
        number: of the table or figure.
        label: in the LaTeX source.
        beside: questions of ours, which are answered and enter no verdict.
    """

    id: str
    section: str
    claim: str
    methods: tuple[str, ...]
    questions: tuple[Question, ...]
    number: int | None = None
    label: str = ""
    beside: tuple[Question, ...] = field(default=(), kw_only=True)
    kind: ClassVar[str]

    @property
    def entry(self) -> str:
        """What the report and the command line call it."""
        return f"{self.kind}:{self.id}"

    @property
    def trained(self) -> tuple[str, ...]:
        """The methods to train for it."""
        return self.methods

    def members(self, name: str) -> list[str]:
        """The methods here that a name of a group stands for, or of a method, which may have no numbers."""
        groups = load_published().groups
        if name in groups:
            return [method for method in self.methods if method in groups[name]]
        return [name] if name in self.trained else []


@dataclass(frozen=True)
class Table(Source):
    """A table; ``measures`` says for a column which runs and which number of them it holds."""

    kind: ClassVar[str] = "table"
    caption: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    measures: Mapping[str, Tags] = field(default_factory=dict)

    @property
    def trained(self) -> tuple[str, ...]:
        """The methods of all rows, those without numbers too."""
        return tuple(dict.fromkeys(row.method for row in self.rows))

    def cell(self, row: str, column: str, group: str | None = None) -> Cell:
        """The cell in a row and column; ``group`` where rows of several groups share names."""
        rows = [r for r in self.rows if r.name == row and group in (None, r.group)]
        if len(rows) != 1 or column not in self.columns:
            raise KeyError(
                f"{self.entry} has {len(rows)} rows {row!r}, group {group!r}, and columns "
                f"{', '.join(self.columns)}; asked for {column!r}"
            )
        return rows[0].cells[self.columns.index(column)]


@dataclass(frozen=True)
class Figure(Source):
    """A figure, of which the paper gives no numbers but only what it claims."""

    kind: ClassVar[str] = "figure"


@dataclass(frozen=True)
class TextClaim(Source):
    """A claim of the text that has no table or figure."""

    kind: ClassVar[str] = "text"


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
    groups: Mapping[str, tuple[str, ...]]
    tables: Mapping[str, Table]
    figures: Mapping[str, Figure]
    texts: Mapping[str, TextClaim]
    statements: Mapping[str, Statement]

    def find(self, entry: str) -> Source | None:
        """The table, figure or text with this name of an entry."""
        sources = (*self.tables.values(), *self.figures.values(), *self.texts.values())
        return next((found for found in sources if found.entry == entry), None)


# --------------------------------------------------------------------------------------------------
# From text


def check_entry(entry: Mapping[str, Any], where: str, required: str, optional: str = "") -> None:
    """Raise unless the keys of an entry are the required ones, and perhaps the optional ones."""
    needed, allowed = set(required.split()), set(f"{required} {optional}".split())
    if not isinstance(entry, dict) or not needed <= set(entry) <= allowed:
        got = sorted(entry) if isinstance(entry, dict) else entry
        raise ValueError(f"{where} must have {', '.join(sorted(needed))}, got {got}")


def _row(entry: Mapping[str, Any], columns: Sequence[str], words: Sequence[str], where: str) -> Row:
    check_entry(entry, f"a row of {where}", "name method cells", "group tags")
    if len(entry["cells"]) != len(columns):
        raise ValueError(
            f"{where}, row {entry['name']!r}: {len(entry['cells'])} cells for {len(columns)} columns"
        )
    cells = tuple(
        Cell(text, None) if column in words else Cell.number(text)
        for column, text in zip(columns, entry["cells"], strict=True)
    )
    return Row(entry["name"], entry["method"], cells, entry.get("group"), entry.get("tags", {}))


def read_questions(
    entry: Mapping[str, Any], where: str, key: str = "questions"
) -> tuple[Question, ...]:
    """The questions of an entry."""
    questions = []
    for given in entry.get(key, []):
        check_entry(given, f"a question of {where}", "text first against judge", "margin value")
        if given["judge"] not in get_args(Judge):
            raise ValueError(
                f"{where}: judge is one of {', '.join(get_args(Judge))}, got {given['judge']!r}"
            )
        against = given["against"]
        questions.append(
            Question(
                given["text"],
                given["first"],
                tuple(against) if isinstance(against, list) else (against,),
                given["judge"],
                float(given.get("margin", 0)),
                given.get("value", "val_error"),
            )
        )
    return tuple(questions)


def _table(id: str, entry: Mapping[str, Any]) -> Table:
    where = f"table:{id}"
    required = "number label section caption claim columns rows"
    check_entry(entry, where, required, "words measures questions beside")
    columns, words = tuple(entry["columns"]), entry.get("words", [])
    if len(set(columns)) < len(columns) or not {*words, *entry.get("measures", {})} <= set(columns):
        raise ValueError(f"{where}: columns need different names; words and measures name columns")
    rows = tuple(_row(row, columns, words, where) for row in entry["rows"])
    names = [(row.group, row.name) for row in rows]
    if len(set(names)) < len(names):
        raise ValueError(f"{where}: names of rows must differ within a group, got {names}")
    # A row of "/" is a method that did not converge: nothing is claimed of its numbers.
    printed = [row.method for row in rows if any(cell.text != MISSING for cell in row.cells)]
    return Table(
        id,
        entry["section"],
        entry["claim"],
        tuple(dict.fromkeys(printed)),
        read_questions(entry, where),
        int(entry["number"]),
        entry["label"],
        entry["caption"],
        columns,
        rows,
        entry.get("measures", {}),
        beside=read_questions(entry, where, "beside"),
    )


def _figure(id: str, entry: Mapping[str, Any]) -> Figure:
    where = f"figure:{id}"
    check_entry(entry, where, "number label section methods claim", "questions")
    return Figure(
        id,
        entry["section"],
        entry["claim"],
        tuple(entry["methods"]),
        read_questions(entry, where),
        int(entry["number"]),
        entry["label"],
    )


def _text(id: str, entry: Mapping[str, Any]) -> TextClaim:
    where = f"text:{id}"
    check_entry(entry, where, "section methods claim", "questions")
    questions = read_questions(entry, where)
    return TextClaim(id, entry["section"], entry["claim"], tuple(entry["methods"]), questions)


def _statement(id: str, entry: Mapping[str, Any]) -> Statement:
    check_entry(entry, f"statement {id}", "value section text")
    value = Cell.number(entry["value"]).value
    if value is None:
        raise ValueError(f"statement {id} must have a number, got {entry['value']!r}")
    return Statement(id, value, entry["section"], entry["text"])


def parse_published(text: str) -> Published:
    """Read the text of ``published.yaml``; raise ``ValueError`` for what is wrong in it."""
    data = yaml.load(text, Loader=yaml.BaseLoader)  # scalars stay as they are printed
    check_entry(data, "published.yaml", "source groups tables figures texts statements")
    tables = {id: _table(id, entry) for id, entry in data["tables"].items()}
    figures = {id: _figure(id, entry) for id, entry in data["figures"].items()}
    for kind, found in (("tables", tables), ("figures", figures)):
        numbers = [item.number for item in found.values()]
        if numbers != list(range(1, len(numbers) + 1)):
            raise ValueError(f"the {kind} must be numbered in order from 1, got {numbers}")
    return Published(
        data["source"],
        {name: tuple(methods) for name, methods in data["groups"].items()},
        tables,
        figures,
        {id: _text(id, entry) for id, entry in data["texts"].items()},
        {id: _statement(id, entry) for id, entry in data["statements"].items()},
    )


@functools.cache
def load_published() -> Published:
    """The paper's numbers.

    >>> load_published().tables["alexnet"].cell("SVD-Pade", "hybrid final top-1").value
    47.76
    >>> load_published().tables["fgvc"].members("svd")  # SVD-TopN did not converge
    ['svd-pade', 'svd-taylor', 'svd-newton', 'svd-trunc', 'mpn-cov']
    """
    file = importlib.resources.files(__package__) / "published.yaml"
    return parse_published(file.read_text(encoding="utf-8"))
