"""Colours of methods and of pages, each for light and for dark paper.

Found by a search that makes the nine methods and average pooling as different from each other as they
can be to normal, protan, deutan and tritan eyes, on paper of either kind; markers tell them apart too.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = [
    "BAR",
    "GRID",
    "INK",
    "MUTED",
    "PAPER",
    "STYLES",
    "Style",
    "Tone",
    "css_colours",
    "styles",
    "tones",
]


@dataclass(frozen=True)
class Tone:
    """One colour as ``#rrggbb`` on light and on dark paper."""

    light: str
    dark: str

    @property
    def css(self) -> str:
        """A reference to it in a page with :func:`css_colours`; by itself the light colour."""
        return f"var(--c-{self.light[1:]}, {self.light})"


@dataclass(frozen=True)
class Style:
    """How a method is drawn everywhere: its colour and its marker."""

    tone: Tone
    marker: str

    @property
    def colour(self) -> str:
        return self.tone.light


PAPER = Tone("#ffffff", "#14171b")
INK = Tone("#1d2126", "#e4e7eb")
MUTED = Tone("#5b6470", "#9ba5b1")
GRID = Tone("#e3e7eb", "#2b3138")
BAR = Tone("#4a6fa5", "#7fa3d9")  # what belongs to no method

STYLES: dict[str, Style] = {
    "exact": Style(Tone("#097460", "#2bbd9f"), "o"),
    "isqrt-cov": Style(Tone("#1e34b6", "#587dee"), "s"),
    "mpn-cov": Style(Tone("#8b3006", "#bc6f53"), "^"),
    "svd-topn": Style(Tone("#8e6a1f", "#fcc354"), "v"),
    "svd-trunc": Style(Tone("#6f9802", "#81af00"), "<"),
    "svd-pi": Style(Tone("#b080cb", "#9778a9"), ">"),
    "svd-newton": Style(Tone("#7265df", "#b8b8f9"), "P"),
    "svd-taylor": Style(Tone("#76317c", "#d681dd"), "X"),
    "svd-pade": Style(Tone("#e76c6a", "#fc7f7c"), "D"),
    "gap": Style(Tone("#484848", "#dedede"), "p"),
    "covariance": Style(Tone("#7f8791", "#8d97a3"), "h"),
    "log": Style(Tone("#0b8aa3", "#49b2ca"), "d"),
    "power": Style(Tone("#b8458a", "#f48cc4"), "*"),
    "signed-sqrt": Style(Tone("#a8633a", "#d9a27c"), "H"),
}


def styles(names: Iterable[str]) -> dict[str, Style]:
    """A style for each name: that of its method, or one of the others that no name here has.

    A name that is no method starts its search at its checksum, so it mostly looks the same everywhere.

    >>> styles(["svd-pade"])["svd-pade"].marker
    'D'
    """
    names = list(dict.fromkeys(names))
    chosen = {name: STYLES[name] for name in names if name in STYLES}
    every = list(STYLES.values())
    for name in names:
        if name not in chosen:
            start = zlib.crc32(name.encode(errors="replace")) % len(every)
            order = every[start:] + every[:start]
            chosen[name] = next((s for s in order if s not in chosen.values()), order[0])
    return {name: chosen[name] for name in names}


def tones() -> list[Tone]:
    """Every colour that has a dark twin."""
    return [PAPER, INK, MUTED, GRID, BAR, *(style.tone for style in STYLES.values())]


def css_colours(kind: str) -> str:
    """Declarations of all colours for ``"light"`` or ``"dark"`` paper."""
    return "".join(f"--c-{tone.light[1:]}:{getattr(tone, kind)};" for tone in tones())
