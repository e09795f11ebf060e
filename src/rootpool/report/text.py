"""Inline text of a report. Whatever a string holds is shown as it is: no markup, no HTML."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TypeAlias

__all__ = [
    "Link",
    "Mono",
    "Number",
    "Strong",
    "Text",
    "escape_markdown",
    "to_markdown",
    "to_plain",
]


@dataclass(frozen=True)
class Strong:
    """Bold text."""

    text: str

    def markdown(self) -> str:
        return f"**{escape_markdown(self.text)}**" if self.text.strip() else self.text


@dataclass(frozen=True)
class Mono:
    """A name or a command, set as code."""

    text: str

    def markdown(self) -> str:
        text = " ".join(self.text.split())
        fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
        space = " " if text.startswith("`") or text.endswith("`") else ""
        return f"{fence}{space}{text}{space}{fence}" if text else ""


@dataclass(frozen=True)
class Link:
    """A link to another page or to an anchor of this one."""

    text: str
    url: str

    def markdown(self) -> str:
        url = re.sub(r"[\s()<>|\\]", lambda match: f"%{ord(match[0]):02X}", self.url)
        return f"[{escape_markdown(self.text)}]({url})"


@dataclass(frozen=True)
class Number:
    """A number with its format, spread and unit.

    >>> Number(-12.345, form=".1f").text
    '−12.3'
    >>> Number(6.48e20, form=".2e").text
    '6.48e20'
    """

    value: float
    spread: float | None = None
    form: str = ".2f"
    unit: str = ""

    @classmethod
    def of(cls, values: Sequence[float], form: str = ".2f", unit: str = "") -> Number:
        r"""The mean of some values and, if there are several, their standard deviation.

        >>> Number.of([1.0, 2.0, 3.0], ".1f").text.replace("\xa0", " ")
        '2.0 ± 1.0'
        """
        return cls(fmean(values), stdev(values) if len(values) > 1 else None, form, unit)

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

    def markdown(self) -> str:
        return escape_markdown(self.text)


Piece: TypeAlias = str | Strong | Mono | Link | Number
Text: TypeAlias = Piece | tuple[Piece, ...]


def to_plain(text: Text) -> str:
    """The words without any markup.

    >>> to_plain(("see ", Mono("make demo")))
    'see make demo'
    """
    if isinstance(text, tuple):
        return "".join(map(to_plain, text))
    return text if isinstance(text, str) else text.text


def to_markdown(text: Text) -> str:
    r"""Text as one line of Markdown.

    >>> print(to_markdown(("a_b | <i>", Strong("!"))))
    a\_b \| &lt;i>**!**
    """
    if isinstance(text, tuple):
        return "".join(map(to_markdown, text))
    return escape_markdown(text) if isinstance(text, str) else text.markdown()


def escape_markdown(text: str) -> str:
    """Plain text as one line of Markdown in which nothing is markup."""
    text = re.sub(r"\s*\n\s*", " ", text)
    text = re.sub(r"[\\`*_\[\]|~$]", r"\\\g<0>", text)
    text = text.replace("&", "&amp;").replace("<", "&lt;")
    text = re.sub(r"^(\s*)([#>+=-])", r"\1\\\2", text)  # headings, quotes, lists, rules
    return re.sub(r"^(\s*\d+)([.)])(?=\s|$)", r"\1\\\2", text)
