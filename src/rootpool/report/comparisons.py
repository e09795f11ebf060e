"""Comparisons as a table of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .statistics import Better, Comparison, show_p, verdict
from .table import Cell, Table
from .text import Number, Text

__all__ = ["comparison_table", "half_width"]


def comparison_table(
    comparisons: Sequence[Comparison],
    better: Better = "lower",
    caption: Text = "",
    over_images: Mapping[str, float] | None = None,
) -> Table:
    """One row per comparison: difference in points, interval, p-value and verdict.

    Args:
        comparisons: of runs with baselines.
        better: which side is.
        caption: of the table.
        over_images: by run, half the width of the interval over other images; a column of its own.
    """
    tested = max((comparison.comparisons for comparison in comparisons), default=0)
    p = f"p, corrected for {tested}" if tested > 1 else "p"
    headers = ["run", "against", "difference, points", p, "seeds", "verdict"]
    rows = [_row(comparison, better) for comparison in comparisons]
    if over_images:
        headers.insert(3, "over images")
        for row, comparison in zip(rows, comparisons, strict=True):
            row.insert(3, half_width(over_images.get(comparison.run)))
    return Table(headers, rows, caption)


def half_width(reach: float | None) -> str | None:
    """Half the width of an interval, as a cell.

    >>> half_width(0.5)
    '± 0.50'
    """
    return None if reach is None else f"± {reach:.2f}"


def _row(comparison: Comparison, better: Better) -> list[Cell]:
    d = comparison.difference
    reach = None if d.low is None or d.high is None else (d.high - d.low) / 2
    return [
        comparison.run,
        comparison.baseline,
        Number(d.mean, reach, "+.2f"),
        show_p(comparison.corrected_p).removeprefix("= "),
        d.n,
        verdict(comparison, better),
    ]
