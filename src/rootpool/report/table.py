"""Tables of text and numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from .blocks import Rendering
from .text import Mono, Number, Text, to_markdown, to_plain

__all__ = ["Cell", "Table"]

Cell: TypeAlias = Text | float | None


@dataclass(frozen=True)
class Table:
    """Rows of cells; columns of numbers are aligned right, and the best of a column is bold.

    Args:
        headers: names of the columns.
        rows: cells in that order: text, numbers, or None for an unknown value.
        caption: what the table shows.
        best: by header, whether the ``"lowest"`` or the ``"highest"`` number is best.
    """

    headers: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    caption: Text = ""
    best: Mapping[str, Literal["lowest", "highest"]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.headers):
                raise ValueError(
                    f"a row has {len(row)} cells for {len(self.headers)} headers: {list(row)!r}"
                )
        unknown = set(self.best) - set(self.headers)
        if unknown:
            raise ValueError(
                f"best names {', '.join(sorted(unknown))}; the headers are {', '.join(self.headers)}"
            )

    def _numeric(self) -> list[bool]:
        columns = zip(*self.rows, strict=True) if self.rows else [()] * len(self.headers)
        known = [[cell for cell in column if cell is not None] for column in columns]
        return [bool(cells) and all(_value(c) is not None for c in cells) for cells in known]

    def _best(self) -> set[tuple[int, int]]:
        """Places of the best cells; numbers that print alike are equally good."""
        places = set()
        for header, kind in self.best.items():
            column = list(self.headers).index(header)
            values = {i: _value(row[column]) for i, row in enumerate(self.rows)}
            finite = {i: v for i, v in values.items() if v is not None and math.isfinite(v)}
            if len(finite) > 1:
                winner = (min if kind == "lowest" else max)(finite, key=finite.__getitem__)
                best = _reading(self.rows[winner][column])
                places |= {(i, column) for i in finite if _reading(self.rows[i][column]) == best}
        return places

    def markdown(self, rendering: Rendering) -> str:
        best = self._best()
        lines = [
            "| " + " | ".join(to_markdown(header) for header in self.headers) + " |",
            "| " + " | ".join("---:" if right else "---" for right in self._numeric()) + " |",
        ]
        for i, row in enumerate(self.rows):
            cells = [_cell(_shown(cell)) for cell in row]
            bold = [f"**{cell}**" if (i, j) in best else cell for j, cell in enumerate(cells)]
            lines.append("| " + " | ".join(bold) + " |")
        return rendering.with_caption("\n".join(lines), self.caption, above=True)


def _value(cell: Cell) -> float | None:
    if isinstance(cell, Number):
        return cell.value
    return cell if isinstance(cell, (int, float)) else None


def _reading(cell: Cell) -> str:
    """A number as it is printed, without its spread."""
    return to_plain(_shown(replace(cell, spread=None) if isinstance(cell, Number) else cell))


def _cell(text: Text) -> str:
    """Markdown of a cell. Cells are split before code is recognised, so a bar in code is escaped here."""
    if isinstance(text, tuple):
        return "".join(map(_cell, text))
    return text.markdown().replace("|", r"\|") if isinstance(text, Mono) else to_markdown(text)


def _shown(cell: Cell) -> Text:
    if cell is None:
        return "–"
    if isinstance(cell, int):
        return f"{cell}"
    return Number(cell, form=".4g") if isinstance(cell, float) else cell
