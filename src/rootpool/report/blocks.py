"""The parts of a report: small values that render themselves as Markdown."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from .text import Mono, Number, Strong, Text, to_markdown, to_plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "TONES",
    "Block",
    "Cell",
    "Code",
    "Details",
    "Facts",
    "Heading",
    "Note",
    "Paragraph",
    "Picture",
    "Rendering",
    "Table",
    "anchor",
]


@dataclass
class Rendering:
    """What the blocks of one document share while it is rendered: its pictures and its captions."""

    folder: str = ""  # of the pictures, relative to the Markdown file
    pictures: dict[str, Figure] = field(default_factory=dict)  # by the path in the Markdown
    captions: set[str] = field(default_factory=set)  # paragraphs that HTML sets as captions
    sections: list[tuple[str, str]] = field(default_factory=list)  # anchors and titles, in HTML

    def with_caption(self, body: str, caption: Text, *, above: bool = False) -> str:
        """A picture or table with its caption as a paragraph of its own."""
        if not caption:
            return body
        text = to_markdown(caption)
        self.captions.add(text)
        return "\n\n".join((text, body) if above else (body, text))


def anchor(text: str) -> str:
    """The name by which a heading is linked; for plain words the same that GitHub gives it.

    >>> anchor("Table 5: speed")
    'table-5-speed'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "part"


class Block(Protocol):
    """Anything that renders itself as Markdown; ``Text`` in it must be escaped with ``to_markdown``."""

    def markdown(self, rendering: Rendering) -> str: ...


@dataclass(frozen=True)
class Heading:
    """The title of a section (level 2) or subsection (level 3). The contents list the sections."""

    text: Text
    level: Literal[2, 3] = 2

    def markdown(self, rendering: Rendering) -> str:
        return f"{'#' * self.level} {to_markdown(self.text)}"


@dataclass(frozen=True)
class Paragraph:
    """Running text."""

    text: Text

    def markdown(self, rendering: Rendering) -> str:
        return to_markdown(self.text).strip()


@dataclass(frozen=True)
class Facts:
    """Names with their values: the main numbers, or the machine and versions of a run."""

    pairs: Mapping[str, Text]

    def markdown(self, rendering: Rendering) -> str:
        return "\n".join(
            f"- {to_markdown(Strong(name))}: {to_markdown(value)}"
            for name, value in self.pairs.items()
        )


@dataclass(frozen=True)
class Code:
    """A command or a part of a file."""

    text: str
    language: str = ""

    def markdown(self, rendering: Rendering) -> str:
        longest = max(map(len, re.findall("`+", self.text)), default=0)
        fence = "`" * max(3, longest + 1)
        return f"{fence}{self.language}\n{self.text}\n{fence}"


Tone: TypeAlias = Literal["plain", "yes", "no", "unclear"]
# The marks of verdicts, on every page.
TONES: dict[Tone, str] = {"plain": "", "yes": "✓", "no": "✗", "unclear": "≈"}


@dataclass(frozen=True)
class Note:
    """A highlighted sentence; the tone marks the answer to a claim (yes, no, unclear)."""

    text: Text
    tone: Tone = "plain"

    def __post_init__(self) -> None:
        if self.tone not in TONES:
            raise ValueError(f"Note.tone is one of {', '.join(TONES)}, got {self.tone!r}")

    def markdown(self, rendering: Rendering) -> str:
        return f"> {TONES[self.tone]} {to_markdown(self.text)}".replace(">  ", "> ")


@dataclass(frozen=True)
class Details:
    """Blocks that are folded away until the reader opens them."""

    summary: Text
    blocks: Sequence[Block]

    def markdown(self, rendering: Rendering) -> str:
        inside = "\n\n".join(block.markdown(rendering) for block in self.blocks)
        summary = html.escape(" ".join(to_plain(self.summary).split()))
        return f"<details>\n<summary>{summary}</summary>\n\n{inside}\n\n</details>"


@dataclass(frozen=True)
class Picture:
    """A figure; ``alt`` is one sentence for readers who cannot see it."""

    figure: Figure
    alt: str
    caption: Text = ""

    def __post_init__(self) -> None:
        if not self.alt.strip():
            raise ValueError("Picture needs alt text: one sentence that says what the figure shows")

    @classmethod
    def of(
        cls, draw: Callable[..., Figure], *args: Any, alt: str, caption: Text = "", **kwargs: Any
    ) -> Picture:
        """What a plot function draws: ``Picture.of(learning_curves, records, alt=...)``."""
        return cls(draw(*args, **kwargs), alt, caption)

    def markdown(self, rendering: Rendering) -> str:
        count = len(rendering.pictures) + 1
        path = f"{rendering.folder}picture{f'-{count}' if count > 1 else ''}.svg"
        rendering.pictures[path] = self.figure
        return rendering.with_caption(f"![{to_markdown(self.alt)}]({path})", self.caption)


# --------------------------------------------------------------------------------------------------
# Tables

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
