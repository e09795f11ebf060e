"""How the runs of one plot look: colour and marker by method, line and filling by protocol.

All of it comes from the tags of a record (``run``, ``method``, ``protocol``); no label is parsed. Two runs of
the same method and protocol get different lines, so that they can be told apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rootpool.analysis.records import Record

from .palette import styles

__all__ = ["LINES", "RunStyle", "run_styles", "tags"]

LINES: dict[str, Any] = {"standalone": "-", "hybrid": "--"}
# For further runs of the same method.
FREE_LINES: list[Any] = ["-", "--", ":", "-.", (0, (6, 1.5, 1, 1.5, 1, 1.5)), (0, (1, 3))]


@dataclass(frozen=True)
class RunStyle:
    """One run in a plot."""

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
    """The style of each run, in order of appearance.

    >>> mine, yours = run_styles(
    ...     [{"run": "mine", "method": "exact"}, {"run": "yours", "method": "exact"}]
    ... ).values()
    >>> mine.colour == yours.colour, mine.line == yours.line
    (True, False)
    """
    runs = {run: (method, protocol) for run, method, protocol in map(tags, records)}
    looks = styles(method for method, _ in runs.values())
    used: dict[str, list[Any]] = {}
    protocols = list(runs.values())
    found = {}
    for run, (method, protocol) in runs.items():
        taken = used.setdefault(method, [])
        # The first run of a protocol has its line; the lines of other protocols here stay free for them.
        reserved = [LINES[p] for m, p in protocols if m == method and p in LINES]
        line = LINES.get(protocol)
        if line is None or line in taken:
            free = [one for one in FREE_LINES if one not in taken and one not in reserved]
            line = free[0] if free else FREE_LINES[len(taken) % len(FREE_LINES)]
        found[run] = RunStyle(looks[method].colour, looks[method].marker, line)
        taken.append(line)
    return found
