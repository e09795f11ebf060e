"""Numbers by name: dots with intervals, and bars."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean, stdev

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from rootpool.report.records import Record

from .drawing import WIDE, below, fit, left_out, logarithmic, styled
from .palette import BAR, GRID, INK, MUTED, PAPER, run_styles, styles

__all__ = ["confusion_pairs", "dots_with_spread", "paired_differences", "speed_bars"]


@styled
def dots_with_spread(
    rows: Sequence[Record],
    value: str = "val_error",
    label: str = "validation error, %",
    *,
    width: float = WIDE,
) -> Figure:
    """A dot per seed, and the mean and standard deviation of each run, smallest mean on top.

    Args:
        rows: one mapping per run and seed, with ``run``, the value, and ``method`` and ``protocol``
            where they apply.
        value: which number to draw.
        label: of the axis.
        width: inches.
    """
    finite = [row for row in _rows(rows, "run", value) if math.isfinite(row[value])]
    runs = defaultdict(list)
    for row in finite:
        runs[row["run"]].append(row)
    order = sorted(runs, key=lambda run: fmean(row[value] for row in runs[run]))
    figure, axes = _horizontal(order, width)
    looks = run_styles(finite)
    for place, run in enumerate(order):
        values = [row[value] for row in runs[run]]
        style = looks[run]
        spread = stdev(values) if len(values) > 1 else 0.0
        below_mean = [place + 0.3] * len(values)
        axes.scatter(values, below_mean, s=14, color=style.colour, alpha=0.6, linewidth=0)
        axes.errorbar(
            fmean(values),
            place,
            xerr=spread or None,
            color=style.colour,
            marker=style.marker,
            markersize=7,
            markerfacecolor=style.colour if style.filled else PAPER,
            elinewidth=1.6,
        )
    below(figure, label, *left_out(len(rows) - len(finite)))
    return figure


@styled
def paired_differences(
    rows: Sequence[Record], label: str = "difference, points", *, width: float = WIDE
) -> Figure:
    """Mean differences with their confidence intervals and the zero line, smallest on top.

    A marker is filled where ``clear`` is true (for example after a correction for many comparisons) or,
    without that key, where the interval does not contain zero. One seed has a hollow marker and no interval.

    Args:
        rows: mappings with ``label``, ``mean``, ``low``, ``high`` and, where they apply, ``clear`` and
            ``method``, which colours them.
        label: of the axis; say there which side is better.
        width: inches.
    """
    rows = sorted(_rows(rows, "label", "mean", "low", "high"), key=lambda row: row["mean"])
    figure, axes = _horizontal([row["label"] for row in rows], width)
    axes.axvline(0, color=INK, linewidth=1)
    looks = styles(row["method"] for row in rows if "method" in row)
    for place, row in enumerate(rows):
        style = looks.get(row.get("method", ""))
        colour = style.colour if style else INK
        known = row["low"] is not None
        if known:
            axes.plot([row["low"], row["high"]], [place, place], color=colour)
        clear = row.get("clear", known and (row["low"] > 0 or row["high"] < 0))
        axes.plot(
            row["mean"],
            place,
            marker=style.marker if style else "o",
            markersize=7,
            color=colour,
            markerfacecolor=colour if clear else PAPER,
        )
    below(figure, label)
    return figure


@styled
def speed_bars(
    rows: Sequence[Record], value: str = "milliseconds", unit: str = "ms", *, width: float = WIDE
) -> Figure:
    """Times on a logarithmic axis, fastest on top, each with its ratio to the fastest.

    Args:
        rows: mappings with ``label`` and the value; ``method`` colours them.
        value: which number to draw.
        unit: of that number.
        width: inches.
    """
    rows = sorted(_rows(rows, "label", value), key=lambda row: row[value])
    times = [row[value] for row in rows]
    if not times[0] > 0:
        raise ValueError(
            f"speed_bars needs positive times, got {times[0]} for {rows[0]['label']!r}"
        )
    texts = [f"{time:.3g} {unit} ({time / times[0]:.3g}×)" for time in times]
    texts[0] = f"{times[0]:.3g} {unit}"
    looks = styles(row["method"] for row in rows if "method" in row)
    colours = [looks[row["method"]].colour if "method" in row else BAR for row in rows]
    figure, axes = _named_bars([row["label"] for row in rows], times, texts, colours, width)
    start = times[0] / 3
    room = 1.3 / (width - 1.3)  # for the text behind the longest bar
    axes.set_xlim(start, times[-1] * (times[-1] / start) ** room)
    logarithmic(axes, "x")
    below(figure, f"{unit}, logarithmic")
    return figure


@styled
def confusion_pairs(rows: Sequence[Record], top: int = 12, *, width: float = WIDE) -> Figure:
    """The pairs of classes that are confused most often.

    Args:
        rows: mappings with ``true``, ``predicted`` and ``count``, and ``total``, the images of the
            true class, where it is known.
        top: how many pairs.
        width: inches.
    """
    rows = sorted(_rows(rows, "true", "predicted", "count"), key=lambda row: -row["count"])[:top]
    counts = [row["count"] for row in rows]
    texts = [
        f"{row['count']} of {row['total']}" if "total" in row else f"{row['count']}" for row in rows
    ]
    names = [f"{row['true']} → {row['predicted']}" for row in rows]
    figure, axes = _named_bars(names, counts, texts, [BAR] * len(rows), width)
    axes.set_xlim(0, max(counts) * (1 + 0.9 / width))
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    below(figure, "images of the first class taken for the second")
    return figure


def _named_bars(
    names: Sequence[str],
    values: Sequence[float],
    texts: Sequence[str],
    colours: Sequence[str],
    width: float,
) -> tuple[Figure, Axes]:
    """Bars from the top down, each below its name, so that long names fit."""
    figure = Figure(figsize=(width, 0.5 + 0.44 * len(names)), layout="constrained")
    axes = figure.add_subplot()
    bars = axes.barh(range(len(names)), values, height=0.32, color=colours)
    axes.bar_label(bars, texts, padding=4, fontsize=8, color=MUTED)
    for place, name in enumerate(fit(name, width - 0.2) for name in names):
        axes.text(
            0, place - 0.24, name, ha="left", va="bottom", transform=axes.get_yaxis_transform()
        )
    axes.set(ylim=(len(names) - 0.6, -0.8), yticks=[])
    axes.spines["left"].set_visible(False)
    return figure, axes


def _rows(rows: Sequence[Record], *needed: str) -> list[Record]:
    if not rows:
        raise ValueError(f"no rows to draw; each needs {', '.join(needed)}")
    for row in rows:
        missing = [key for key in needed if key not in row]
        if missing:
            raise ValueError(f"rows need {', '.join(missing)}; got {', '.join(row)}")
    return list(rows)


def _horizontal(labels: Sequence[str], width: float) -> tuple[Figure, Axes]:
    """Axes with one place per name, the first on top."""
    wrapped = [fit(label, 0.47 * width, lines=2) for label in labels]
    lines = sum(1 + label.count("\n") for label in wrapped)
    figure = Figure(figsize=(width, 0.6 + 0.13 * len(labels) + 0.16 * lines), layout="constrained")
    axes = figure.add_subplot()
    axes.set_yticks(range(len(labels)), wrapped)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.grid(False, axis="y")
    axes.spines["left"].set_color(GRID)
    return figure, axes
