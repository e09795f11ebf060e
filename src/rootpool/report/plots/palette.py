"""Colours of methods and of pages, each for a light and for a dark background.

The methods of the paper have designed colours, chosen to stay apart for colour-blind readers too. Any other
name, such as a user's own method, gets a style that is free, so a new method needs no edit here.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = [
    "BAR",
    "FAINT",
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
    """One colour as ``#rrggbb`` on a light and on a dark background."""

    light: str
    dark: str

    @property
    def css(self) -> str:
        """A reference to the colour in a page with :func:`css_colours`; elsewhere the light colour."""
        return f"var(--c-{self.light[1:]}, {self.light})"


@dataclass(frozen=True)
class Style:
    """The colour and the marker of a method in every plot."""

    tone: Tone
    marker: str

    @property
    def colour(self) -> str:
        return self.tone.light


PAPER = Tone("#ffffff", "#14171b")
INK = Tone("#1d2126", "#e4e7eb")
MUTED = Tone("#5b6470", "#9ba5b1")
GRID = Tone("#e3e7eb", "#2b3138")
FAINT = Tone("#c6cdd5", "#465059")  # lines in the background
BAR = Tone("#4a6fa5", "#7fa3d9")  # bars that belong to no method

STYLES: dict[str, Style] = {
    "exact": Style(Tone("#03a1a2", "#a7f7e6"), "o"),
    "isqrt-cov": Style(Tone("#2015be", "#6995fc"), "s"),
    "mpn-cov": Style(Tone("#6e2b01", "#de7e5b"), "^"),
    "svd-topn": Style(Tone("#b98a12", "#f3bf0c"), "v"),
    "svd-trunc": Style(Tone("#79966b", "#edf7aa"), "<"),
    "svd-pi": Style(Tone("#c26ff3", "#9e789c"), ">"),
    "svd-newton": Style(Tone("#506aa8", "#7850d9"), "P"),
    "svd-taylor": Style(Tone("#583759", "#e3c0fd"), "X"),
    "svd-pade": Style(Tone("#ba1743", "#ca2e59"), "D"),
    "gap": Style(Tone("#737373", "#a8a8a8"), "p"),
    "covariance": Style(Tone("#3f4650", "#d5dbe3"), "h"),
    "log": Style(Tone("#0b8aa3", "#49b2ca"), "d"),
    "power": Style(Tone("#b8458a", "#f48cc4"), "*"),
    "signed-sqrt": Style(Tone("#a8633a", "#d9a27c"), "H"),
}


def styles(names: Iterable[str]) -> dict[str, Style]:
    """A style for each name: the designed one, or one that no other name here has.

    The search for a free style starts at the checksum of the name, so that an unknown name mostly
    looks the same in every plot.

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
    """Every colour that has a dark counterpart."""
    return [PAPER, INK, MUTED, GRID, FAINT, BAR, *(style.tone for style in STYLES.values())]


def css_colours(kind: str) -> str:
    """CSS declarations of all colours for a ``"light"`` or ``"dark"`` background."""
    return "".join(f"--c-{tone.light[1:]}:{getattr(tone, kind)};" for tone in tones())
