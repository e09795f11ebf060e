"""Numbers by name: dots with intervals, and bars."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean, stdev

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rootpool.report.records import Record

from .drawing import WIDE, below, checked, fit, left_out, logarithmic, styled
from .palette import BAR, GRID, INK, MUTED, PAPER, Style, run_styles

__all__ = ["dots_with_spread", "paired_differences", "speed_bars"]


@styled
def dots_with_spread(
    rows: Sequence[Record],
    value: str = "val_error",
    label: str = "validation error, %",
) -> Figure:
    """A dot per seed, and the mean and standard deviation of each run, smallest mean on top.

    Args:
        rows: one mapping per run and seed, with ``run``, the value, and ``method`` and ``protocol``
            where they apply; runs of another protocol than standalone are hollow.
        value: which number to draw.
        label: of the axis.

    Returns:
        The figure, one row per name.
    """
    finite = [row for row in checked(rows, "run", value) if math.isfinite(row[value])]
    runs = defaultdict(list)
    for row in finite:
        runs[row["run"]].append(row[value])
    order = sorted(runs, key=lambda run: fmean(runs[run]))
    figure, axes = _horizontal(order)
    looks = run_styles(finite)
    for place, run in enumerate(order):
        values, mean, style = runs[run], fmean(runs[run]), looks[run]
        below_mean = [place + 0.3] * len(values)
        axes.scatter(values, below_mean, s=14, color=style.colour, alpha=0.6, linewidth=0)
        spread = stdev(values) if len(values) > 1 else 0.0
        _draw(axes, place, mean, mean - spread, mean + spread, style, filled=style.line == "-")
    below(figure, label, *left_out(len(rows) - len(finite)))
    return figure


@styled
def paired_differences(
    rows: Sequence[Record], label: str = "difference, points", reach: float | None = None
) -> Figure:
    """Mean differences with their confidence intervals and the zero line, smallest on top.

    A marker is filled where ``clear`` is true (for example after a correction for many comparisons) or,
    without that key, where the interval does not contain zero. One seed has a hollow marker and no interval.

    Args:
        rows: mappings with ``label``, ``mean``, ``low``, ``high`` and, where they apply, ``clear`` and
            ``method``, which colours them.
        label: of the axis; say there which side is better.
        reach: half of the axis around zero, for pictures that are to be compared; None fits the rows.

    Returns:
        The figure, one row per comparison.
    """
    rows = sorted(checked(rows, "label", "mean", "low", "high"), key=lambda row: row["mean"])
    figure, axes = _horizontal([row["label"] for row in rows])
    axes.axvline(0, color=INK, linewidth=1)
    looks = _by_method(rows, Style(INK, "o"))
    for place, (row, style) in enumerate(zip(rows, looks, strict=True)):
        mean = row["mean"]
        low, high = (mean, mean) if row["low"] is None else (row["low"], row["high"])
        clear = row.get("clear", row["low"] is not None and (low > 0 or high < 0))
        _draw(axes, place, mean, low, high, style, filled=clear)
    if reach:
        axes.set_xlim(-1.05 * reach, 1.05 * reach)
    below(figure, label)
    return figure


@styled
def speed_bars(rows: Sequence[Record], value: str = "milliseconds", unit: str = "ms") -> Figure:
    """Times on a logarithmic axis, fastest on top, each with its ratio to the fastest.

    Args:
        rows: mappings with ``label`` and the value; ``method`` colours them.
        value: which number to draw.
        unit: of that number.

    Returns:
        The figure, one row per record.
    """
    rows = sorted(checked(rows, "label", value), key=lambda row: row[value])
    times = [row[value] for row in rows]
    if not times[0] > 0:
        raise ValueError(
            f"speed_bars needs positive times, got {times[0]} for {rows[0]['label']!r}"
        )
    texts = [f"{time:.3g} {unit} ({time / times[0]:.3g}×)" for time in times]
    texts[0] = f"{times[0]:.3g} {unit}"
    figure, axes = _horizontal([row["label"] for row in rows])
    colours = [style.colour for style in _by_method(rows, Style(BAR, "o"))]
    bars = axes.barh(range(len(rows)), times, height=0.5, color=colours)
    axes.bar_label(bars, texts, padding=4, color=MUTED)
    axes.margins(x=0.25)  # for the text behind the longest bar
    axes.set_xlim(left=times[0] / 3)
    logarithmic(axes, "x")
    below(figure, f"{unit}, logarithmic")
    return figure


def _draw(
    axes: Axes, place: int, mean: float, low: float, high: float, style: Style, *, filled: bool
) -> None:
    """A marker at the mean, in its interval."""
    colour = style.colour
    face = colour if filled else PAPER
    axes.plot([low, high], [place, place], color=colour)
    axes.plot(mean, place, marker=style.marker, markersize=7, color=colour, markerfacecolor=face)


def _by_method(rows: Sequence[Record], otherwise: Style) -> list[Style]:
    """A style for each row: that of its method, if it names one."""
    looks = run_styles({"run": row["method"]} for row in rows if "method" in row)
    return [looks.get(row.get("method", ""), otherwise) for row in rows]


def _horizontal(labels: Sequence[str]) -> tuple[Figure, Axes]:
    """Axes with one place per name, the first on top."""
    wrapped = [fit(label, 0.47 * WIDE, lines=2) for label in labels]
    lines = sum(1 + label.count("\n") for label in wrapped)
    figure = Figure(figsize=(WIDE, 0.6 + 0.13 * len(labels) + 0.16 * lines), layout="constrained")
    axes = figure.add_subplot()
    axes.set_yticks(range(len(labels)), wrapped)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.grid(False, axis="y")
    axes.spines["left"].set_color(GRID)
    return figure, axes
