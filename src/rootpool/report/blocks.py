"""What a page is made of: small values that render themselves as HTML and as Markdown."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from matplotlib.figure import Figure

from rootpool.report.plots.drawing import NARROW

from .svg import at_width, inline_svg, standalone_svg
from .text import Strong, Text, to_html, to_markdown, to_plain

__all__ = [
    "Block",
    "Code",
    "Details",
    "Facts",
    "Heading",
    "List",
    "Note",
    "Paragraph",
    "Picture",
    "Rendering",
    "anchor",
    "caption_html",
]


@dataclass
class Rendering:
    """What the blocks of one document share while it is written: names, contents, picture files."""

    folder: str = ""  # of the pictures, relative to a Markdown document
    names: set[str] = field(default_factory=set)
    contents: list[tuple[int, str, str]] = field(default_factory=list)  # level, HTML, anchor
    files: dict[str, str | bytes] = field(default_factory=dict)

    def unique(self, name: str) -> str:
        """The name, or the name with a number if it is taken."""
        count, free = 1, (slug := anchor(name))
        while free in self.names:
            count += 1
            free = f"{slug}-{count}"
        self.names.add(free)
        return free


def anchor(text: str) -> str:
    """The name that a heading can be linked by; for plain words the one that GitHub gives it too.

    >>> anchor("Table 5: speed")
    'table-5-speed'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "part"


class Block(Protocol):
    """Anything that renders itself; both forms must be safe for whatever text it holds."""

    def html(self, rendering: Rendering) -> str: ...

    def markdown(self, rendering: Rendering) -> str: ...


@dataclass(frozen=True)
class Heading:
    """A section (level 2) or a part of one (level 3); the page lists them."""

    text: Text
    level: Literal[2, 3] = 2

    def html(self, rendering: Rendering) -> str:
        text = to_html(self.text)
        anchor = rendering.unique(to_plain(self.text))
        rendering.contents.append((self.level, html.escape(to_plain(self.text)), anchor))
        return f'<h{self.level} id="{anchor}">{text}</h{self.level}>'

    def markdown(self, rendering: Rendering) -> str:
        return f"{'#' * self.level} {to_markdown(self.text)}"


@dataclass(frozen=True)
class Paragraph:
    """Running text."""

    text: Text

    def html(self, rendering: Rendering) -> str:
        return f"<p>{to_html(self.text)}</p>"

    def markdown(self, rendering: Rendering) -> str:
        return to_markdown(self.text).strip()


@dataclass(frozen=True)
class List:
    """Points, one below the other."""

    items: Sequence[Text]

    def html(self, rendering: Rendering) -> str:
        return "<ul>" + "".join(f"<li>{to_html(item)}</li>" for item in self.items) + "</ul>"

    def markdown(self, rendering: Rendering) -> str:
        return "\n".join(f"- {to_markdown(item)}" for item in self.items)


@dataclass(frozen=True)
class Facts:
    """A few names with their values, side by side: the numbers that matter, or what was run where."""

    pairs: Mapping[str, Text]

    def html(self, rendering: Rendering) -> str:
        pairs = (
            f"<div><dt>{html.escape(name)}</dt><dd>{to_html(value)}</dd></div>"
            for name, value in self.pairs.items()
        )
        return f'<dl class="facts">{"".join(pairs)}</dl>'

    def markdown(self, rendering: Rendering) -> str:
        return "\n".join(
            f"- {to_markdown(Strong(name))}: {to_markdown(value)}"
            for name, value in self.pairs.items()
        )


@dataclass(frozen=True)
class Code:
    """A command or a piece of a file."""

    text: str
    language: str = ""

    def html(self, rendering: Rendering) -> str:
        return f'<pre tabindex="0"><code>{html.escape(self.text)}</code></pre>'

    def markdown(self, rendering: Rendering) -> str:
        longest = max(map(len, re.findall("`+", self.text)), default=0)
        fence = "`" * max(3, longest + 1)
        return f"{fence}{self.language}\n{self.text}\n{fence}"


TONES = {"plain": "", "yes": "✓", "no": "✗", "unclear": "≈"}


@dataclass(frozen=True)
class Note:
    """A sentence that must not be missed; the tone says whether a claim shows (yes, no, unclear)."""

    text: Text
    tone: Literal["plain", "yes", "no", "unclear"] = "plain"

    def __post_init__(self) -> None:
        if self.tone not in TONES:
            raise ValueError(f"Note.tone is one of {', '.join(TONES)}, got {self.tone!r}")

    def html(self, rendering: Rendering) -> str:
        mark = f'<span class="mark" aria-hidden="true">{TONES[self.tone]}</span>'
        return (
            f'<div class="note {self.tone}" role="note">'
            f"{mark if TONES[self.tone] else ''}<p>{to_html(self.text)}</p></div>"
        )

    def markdown(self, rendering: Rendering) -> str:
        return f"> {TONES[self.tone]} {to_markdown(self.text)}".replace(">  ", "> ")


@dataclass(frozen=True)
class Details:
    """Blocks that open on demand."""

    summary: Text
    blocks: Sequence[Block]

    def html(self, rendering: Rendering) -> str:
        inside = "\n".join(block.html(rendering) for block in self.blocks)
        return f"<details><summary>{to_html(self.summary)}</summary>\n{inside}\n</details>"

    def markdown(self, rendering: Rendering) -> str:
        inside = "\n\n".join(block.markdown(rendering) for block in self.blocks)
        return f"<details>\n<summary>{to_html(self.summary)}</summary>\n\n{inside}\n\n</details>"


@dataclass(frozen=True)
class Picture:
    """A figure, drawn for wide and for narrow windows; ``alt`` says what it shows to who cannot see it.

    Without ``narrow`` the same figure is laid out again for a phone.
    """

    figure: Figure
    alt: str
    caption: Text = ""
    narrow: Figure | None = None

    def __post_init__(self) -> None:
        if not self.alt.strip():
            raise ValueError("Picture needs alt text: one sentence that says what the figure shows")

    @classmethod
    def of(
        cls, draw: Callable[..., Figure], *args: Any, alt: str, caption: Text = "", **kwargs: Any
    ) -> Picture:
        """One of our plots at both widths: ``Picture.of(learning_curves, records, alt=...)``."""
        narrow = draw(*args, width=NARROW, **kwargs)
        return cls(draw(*args, **kwargs), alt, caption, narrow)

    def html(self, rendering: Rendering) -> str:
        name, alt = rendering.unique("picture"), html.escape(self.alt)
        wide = inline_svg(self.figure, f"{name}-w", alt, "wide")
        if self.narrow is not None:
            narrow = inline_svg(self.narrow, f"{name}-n", alt, "narrow")
        else:
            with at_width(self.figure, NARROW) as figure:
                narrow = inline_svg(figure, f"{name}-n", alt, "narrow")
        return f"<figure>\n{wide}\n{narrow}\n{caption_html(self.caption)}</figure>"

    def markdown(self, rendering: Rendering) -> str:
        path = f"{rendering.folder}{rendering.unique('picture')}.svg"
        rendering.files[path] = standalone_svg(self.figure)
        picture = f"![{to_markdown(self.alt)}]({path})"
        return f"{picture}\n\n{to_markdown(self.caption)}" if self.caption else picture


def caption_html(text: Text) -> str:
    """The caption in its element, or nothing."""
    return f"<figcaption>{to_html(text)}</figcaption>\n" if text else ""
