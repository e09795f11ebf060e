"""Text of a page, as HTML and as Markdown: whatever a string holds is shown, never obeyed."""

from __future__ import annotations

import html
import math
import re
from dataclasses import dataclass
from typing import TypeAlias

from rootpool.report.plots.palette import styles

__all__ = [
    "Link",
    "Method",
    "Mono",
    "Number",
    "Strong",
    "Text",
    "escape_markdown",
    "to_html",
    "to_markdown",
    "to_plain",
]


@dataclass(frozen=True)
class Strong:
    """Bold."""

    text: str

    def html(self) -> str:
        return f"<strong>{html.escape(self.text)}</strong>"

    def markdown(self) -> str:
        return f"**{escape_markdown(self.text)}**" if self.text.strip() else self.text


@dataclass(frozen=True)
class Mono:
    """A name or a command as one types it."""

    text: str

    def html(self) -> str:
        return f"<code>{html.escape(self.text)}</code>"

    def markdown(self) -> str:
        # A table splits cells before it looks for code, so that a bar needs its backslash here too.
        text = " ".join(self.text.split()).replace("|", r"\|")
        fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
        space = " " if text.startswith("`") or text.endswith("`") else ""
        return f"{fence}{space}{text}{space}{fence}" if text else ""


@dataclass(frozen=True)
class Link:
    """A reference to another page; nothing is loaded until a reader follows it."""

    text: str
    url: str

    def __post_init__(self) -> None:
        scheme = re.match(r"\s*([a-zA-Z][\w+.-]*):", self.url)
        if scheme and scheme[1].lower() not in ("http", "https", "mailto"):
            raise ValueError(
                f"Link goes to http, https, mailto or a relative address, got {self.url!r}"
            )

    def html(self) -> str:
        return f'<a href="{html.escape(self.url)}">{html.escape(self.text)}</a>'

    def markdown(self) -> str:
        url = re.sub(r"[\s()<>\\]", lambda match: f"%{ord(match[0]):02X}", self.url)
        return f"[{escape_markdown(self.text)}]({url})"


@dataclass(frozen=True)
class Method:
    """The name of a method behind a dot in its colour, the one it has in the plots."""

    text: str

    def html(self) -> str:
        colour = styles([self.text])[self.text].tone.css
        return f'<span class="method" style="--dot:{colour}">{html.escape(self.text)}</span>'

    def markdown(self) -> str:
        return Mono(self.text).markdown()


@dataclass(frozen=True)
class Number:
    """A number as it should read, with its spread and unit.

    >>> Number(-12.345, form=".1f").text
    '−12.3'
    >>> Number(6.48e20, form=".2e").text
    '6.48e20'
    """

    value: float
    spread: float | None = None
    form: str = ".2f"
    unit: str = ""

    @property
    def text(self) -> str:
        parts = [self._show(self.value)]
        if self.spread is not None:
            parts += ["±", self._show(self.spread).removeprefix("+")]
        return "\N{NO-BREAK SPACE}".join([*parts, self.unit] if self.unit else parts)

    def _show(self, number: float) -> str:
        if math.isnan(number):
            return "not a number"
        if math.isinf(number):
            return "∞" if number > 0 else "−∞"
        return format(number, self.form).replace("-", "−").replace("e+", "e")

    def html(self) -> str:
        return html.escape(self.text)

    def markdown(self) -> str:
        return escape_markdown(self.text)


Piece: TypeAlias = str | Strong | Mono | Link | Method | Number
Text: TypeAlias = Piece | tuple[Piece, ...]


def to_html(text: Text) -> str:
    """Text as HTML.

    >>> to_html(("<b> & ", Mono("make demo")))
    '&lt;b&gt; &amp; <code>make demo</code>'
    """
    if isinstance(text, tuple):
        return "".join(map(to_html, text))
    return html.escape(text) if isinstance(text, str) else text.html()


def to_plain(text: Text) -> str:
    """The words alone.

    >>> to_plain(("see ", Mono("make demo")))
    'see make demo'
    """
    if isinstance(text, tuple):
        return "".join(map(to_plain, text))
    return text if isinstance(text, str) else text.text


def to_markdown(text: Text) -> str:
    r"""Text as Markdown in one line.

    >>> print(to_markdown(("a_b | <i>", Strong("!"))))
    a\_b \| &lt;i>**!**
    """
    if isinstance(text, tuple):
        return "".join(map(to_markdown, text))
    return escape_markdown(text) if isinstance(text, str) else text.markdown()


def escape_markdown(text: str) -> str:
    """Plain text in one line, with what Markdown would read as markup taken literally."""
    text = re.sub(r"\s*\n\s*", " ", text)
    text = re.sub(r"[\\`*_\[\]|~$]", r"\\\g<0>", text)
    text = text.replace("&", "&amp;").replace("<", "&lt;")
    text = re.sub(r"^(\s*)([#>+=-])", r"\1\\\2", text)  # headings, quotes, lists, rules
    return re.sub(r"^(\s*\d+)([.)])(?=\s|$)", r"\1\\\2", text)
