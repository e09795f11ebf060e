"""Colours and markers of methods, lines of protocols.

The methods of the paper have designed colours, chosen to stay apart for colour-blind readers too. Any other
name, such as a user's own method, gets a style that is free, so a new method needs no edit here.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from rootpool.report.records import Record

__all__ = ["BAR", "FAINT", "GRID", "INK", "MUTED", "PAPER", "STYLES", "Style", "run_styles", "tags"]

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
    "log": Style("#0b8aa3", "d"),
    "power": Style("#b8458a", "*"),
    "signed-sqrt": Style("#a8633a", "H"),
}


def tags(record: Record) -> tuple[str, str, str]:
    """Run, method and protocol of a record; a run without a method is its own method."""
    run = str(record.get("run", record.get("label")))
    return run, str(record.get("method", run)), str(record.get("protocol", "standalone"))


def run_styles(records: Iterable[Record]) -> dict[str, Style]:
    """The style of each run.

    The first run of a method has the method's colour, in each protocol. Further runs of the same method and
    protocol, and methods without a designed colour, get a free one: the search starts at the checksum of
    the name, so that a name mostly looks the same in every plot.

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
    every = list(STYLES.values())
    for name in names:
        if name not in chosen:
            start = zlib.crc32(name.encode(errors="replace")) % len(every)
            order = every[start:] + every[:start]
            chosen[name] = next((s for s in order if s not in chosen.values()), order[0])
    return {run: chosen[name]._replace(line=line) for run, (name, line) in runs.items()}
