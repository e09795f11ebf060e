"""Colours and markers of methods, lines of protocols.

The methods of the paper have designed colours, chosen to stay apart for colour-blind readers too; relatives
share a colour and differ in their markers. Any other name, such as a user's own method or a network, gets a
style that no method has, so a new method needs no edit here.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from rootpool.report.records import Record

__all__ = [
    "BAR",
    "DARK",
    "FAINT",
    "FREE",
    "GRID",
    "INK",
    "MUTED",
    "PAPER",
    "STYLES",
    "Style",
    "run_styles",
    "tags",
]

PAPER = "#ffffff"
INK = "#1d2126"
MUTED = "#5b6470"
GRID = "#e3e7eb"
FAINT = "#c6cdd5"  # lines in the background
BAR = "#4a6fa5"  # bars that belong to no method
LINES = {"standalone": "-", "hybrid": "--"}  # by protocol; any other is dotted


class Style(NamedTuple):
    """A run in a plot: colour and marker by method, line by protocol."""

    colour: str
    marker: str
    line: Any = "-"


STYLES: dict[str, Style] = {
    "exact": Style("#03a1a2", "o"),
    "isqrt-cov": Style("#2015be", "s"),
    "mpn-cov": Style("#6e2b01", "^"),
    "svd-topn": Style("#b98a12", "v"),
    "svd-trunc": Style("#79966b", "<"),
    "svd-pi": Style("#c26ff3", ">"),
    "svd-newton": Style("#506aa8", "P"),
    "svd-taylor": Style("#583759", "X"),
    "svd-pade": Style("#ba1743", "D"),
    "gap": Style("#737373", "p"),
    "covariance": Style("#3f4650", "h"),
    "log": Style("#2a7d2e", "d"),
    "power": Style("#b8458a", "*"),
    "signed-sqrt": Style("#a8633a", "H"),
    "polar": Style("#03a1a2", "*"),
    "seb": Style("#03a1a2", "P"),
    "minimax": Style("#2015be", "d"),
    "newton-fused": Style("#2015be", "X"),
    "box-cox": Style("#b8458a", "H"),
    "log-cholesky": Style("#2a7d2e", "<"),
    "brownian": Style("#a8633a", "v"),
    "isice": Style("#3f4650", ">"),
}
COLOURS, MARKERS = ("#1f8fd6", "#d9730d", "#7fae1e", "#d6527a", "#7a6ae0"), "oDs^vP"
FREE = [Style(COLOURS[k % 5], MARKERS[k % 6]) for k in range(30)]  # of no method

# What is as legible on a dark page.
DARK = {INK: "#e4e7eb", MUTED: "#9ba5b1", GRID: "#3a424b", FAINT: "#566069", BAR: "#7fa3d9"}
DARK |= {"#03a1a2": "#4fd8cf", "#2015be": "#6995fc", "#6e2b01": "#de7e5b", "#b98a12": "#f3bf0c"}
DARK |= {"#79966b": "#c3dfae", "#506aa8": "#8f9ff0", "#583759": "#e3c0fd", "#ba1743": "#ff6b8f"}
DARK |= {"#737373": "#a8a8a8", "#3f4650": "#d5dbe3", "#2a7d2e": "#5fc46a", "#b8458a": "#f08cc6"}
DARK |= {"#a8633a": "#e39a6c", "#1f8fd6": "#6cbcf2", "#d9730d": "#ffa858", "#7fae1e": "#b9dc6c"}
DARK |= {"#d6527a": "#ff94b4", "#7a6ae0": "#b3a9ff", PAPER: "#1e2129"}


def tags(record: Record) -> tuple[str, str, str]:
    """Run, method and protocol of a record; a run without a method is its own method."""
    run = str(record.get("run", record.get("label")))
    return run, str(record.get("method", run)), str(record.get("protocol", "standalone"))


def run_styles(records: Iterable[Record]) -> dict[str, Style]:
    """The style of each run.

    The first run of a method has the method's colour, in each protocol, and so has the paper's form of the
    method where the method itself is not shown. Further runs of the same method and
    protocol, and methods without a designed colour, get a free one: the search starts at the checksum of
    the name, so that a name mostly looks the same in every plot, and prefers colours that are not used yet.

    >>> mine, yours, hybrid = run_styles(
    ...     [
    ...         {"run": "mine", "method": "exact"},
    ...         {"run": "yours", "method": "exact"},
    ...         {"run": "hybrid", "method": "exact", "protocol": "hybrid"},
    ...     ]
    ... ).values()
    >>> mine.colour == hybrid.colour, mine.colour == yours.colour, hybrid.line
    (True, False, '--')
    """
    first: dict[tuple[str, str], str] = {}
    runs = {}
    for run, method, protocol in map(tags, records):
        name = method if first.setdefault((method, protocol), run) == run else run
        runs[run] = name, LINES.get(protocol, ":")
    names = dict.fromkeys(name for name, _ in runs.values())
    chosen = {name: STYLES[name] for name in names if name in STYLES}
    for name in names:
        ours = name.removesuffix("-published").removesuffix("-released")
        if ours in STYLES and STYLES[ours] not in chosen.values():
            chosen.setdefault(name, STYLES[ours])
    for name in names:
        if name not in chosen:
            start = zlib.crc32(name.encode(errors="replace")) % len(FREE)
            colours = [style.colour for style in chosen.values()]
            order = FREE[start:] + FREE[:start]
            chosen[name] = min(order, key=lambda s: (s in chosen.values(), colours.count(s.colour)))
    return {run: chosen[name]._replace(line=line) for run, (name, line) in runs.items()}
