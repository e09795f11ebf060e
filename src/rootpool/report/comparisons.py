"""Comparisons as a table of a report."""

from __future__ import annotations

from collections.abc import Sequence

from rootpool.analysis.statistics import Better, Comparison, show_p, verdict

from .table import Cell, Table
from .text import Number, Text

__all__ = ["comparison_table"]


def comparison_table(
    comparisons: Sequence[Comparison], better: Better = "lower", caption: Text = ""
) -> Table:
    """One row per comparison: difference in points, interval, p-value and verdict."""
    tested = max((comparison.comparisons for comparison in comparisons), default=0)
    p = f"p, corrected for {tested}" if tested > 1 else "p"
    headers = ["run", "against", "difference, points", p, "seeds", "verdict"]
    return Table(headers, [_row(comparison, better) for comparison in comparisons], caption)


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
