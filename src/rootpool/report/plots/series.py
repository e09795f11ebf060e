"""Records of several seeds as one line with a spread."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from rootpool.analysis.records import Record

__all__ = ["Series", "collect"]


@dataclass(frozen=True)
class Series:
    """One run: the mean over seeds at each place, and one standard deviation to either side."""

    run: str
    seeds: int
    x: tuple[float, ...]
    centre: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def collect(records: Sequence[Record], x: str, value: str) -> tuple[list[Series], int]:
    """Runs in order of appearance, and the number of values left out because they are not finite.

    Args:
        records: mappings with ``run``, ``x`` and ``value``; a missing ``seed`` counts as 0.
        x: name of the value on the horizontal axis.
        value: name of the value on the vertical axis.

    >>> records = [{"run": "a", "seed": s, "epoch": 0, "loss": v} for s, v in enumerate([1.0, 3.0])]
    >>> line = collect(records, "epoch", "loss")[0][0]
    >>> line.centre, line.seeds
    ((2.0,), 2)
    """
    if not records:
        raise ValueError(f"no records to draw {value!r} from")
    for record in records:
        missing = [key for key in ("run", x, value) if key not in record]
        if missing:
            raise ValueError(f"records need {', '.join(missing)}; got {', '.join(record)}")
    runs: dict[str, list[Record]] = defaultdict(list)
    left_out = 0
    for record in records:
        usable = math.isfinite(record[value])
        left_out += not usable
        group = runs[record["run"]]
        if usable:
            group.append(record)
    return [_line(run, group, x, value) for run, group in runs.items() if group], left_out


def _line(run: str, records: Sequence[Record], x: str, value: str) -> Series:
    at: dict[float, list[float]] = defaultdict(list)
    for record in records:
        at[record[x]].append(record[value])
    places = sorted(at)
    spreads = [_spread(at[place]) for place in places]
    low, centre, high = zip(*spreads, strict=True)
    seeds = len({record.get("seed", 0) for record in records})
    return Series(run, seeds, tuple(places), centre, low, high)


def _spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean minus, mean, mean plus one standard deviation."""
    centre = fmean(values)
    deviation = stdev(values) if len(values) > 1 else 0.0
    return centre - deviation, centre, centre + deviation
