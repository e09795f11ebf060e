"""Colours and markers of methods, lines of runs.

The methods of the paper have designed colours, chosen to stay apart for colour-blind readers too. Any other
name, such as a user's own method, gets a style that is free, so a new method needs no edit here.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from rootpool.report.records import Record

__all__ = [
    "BAR",
    "FAINT",
    "GRID",
    "INK",
    "LINES",
    "MUTED",
    "PAPER",
    "STYLES",
    "RunStyle",
    "Style",
    "run_styles",
    "styles",
    "tags",
]

PAPER = "#ffffff"
INK = "#1d2126"
MUTED = "#5b6470"
GRID = "#e3e7eb"
FAINT = "#c6cdd5"  # lines in the background
BAR = "#4a6fa5"  # bars that belong to no method


class Style(NamedTuple):
    """The colour and the marker of a method in every plot."""

    colour: str
    marker: str


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
    "log": Style("#0b8aa3", "d"),
    "power": Style("#b8458a", "*"),
    "signed-sqrt": Style("#a8633a", "H"),
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


LINES: dict[str, Any] = {"standalone": "-", "hybrid": "--"}
# For further runs of the same method.
FREE_LINES: list[Any] = [":", "-.", (0, (6, 1.5, 1, 1.5, 1, 1.5)), (0, (1, 3))]


class RunStyle(NamedTuple):
    """One run in a plot: colour and marker by method, line by protocol."""

    colour: str
    marker: str
    line: Any

    @property
    def filled(self) -> bool:
        """Whether its markers are filled, as a solid line is."""
        return bool(self.line == "-")


def tags(record: Record) -> tuple[str, str, str]:
    """Run, method and protocol of a record; a run without a method is its own method."""
    run = str(record.get("run", record.get("label")))
    return run, str(record.get("method", run)), str(record.get("protocol", "standalone"))


def run_styles(records: Iterable[Record]) -> dict[str, RunStyle]:
    """The style of each run; runs of the same method and protocol differ in their lines.

    >>> mine, yours = run_styles(
    ...     [{"run": "mine", "method": "exact"}, {"run": "yours", "method": "exact"}]
    ... ).values()
    >>> mine.colour == yours.colour, mine.line == yours.line
    (True, False)
    """
    runs = {run: (method, protocol) for run, method, protocol in map(tags, records)}
    looks = styles(method for method, _ in runs.values())
    found: dict[str, RunStyle] = {}
    for run, (method, protocol) in runs.items():
        taken = [found[other].line for other in found if runs[other][0] == method]
        order = [LINES.get(protocol, FREE_LINES[0]), *FREE_LINES]
        line = next((line for line in order if line not in taken), order[0])
        found[run] = RunStyle(*looks[method], line)
    return found
