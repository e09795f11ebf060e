"""Runs over time: errors by epoch, spectra by step."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from rootpool.report.records import Record

from .drawing import WIDE, below, fit, left_out, legend, logarithmic, styled
from .palette import FAINT, INK, LINES, MUTED, RunStyle, run_styles, tags

__all__ = ["learning_curve_panels", "learning_curves", "spectrum_over_training"]

LABELS = {
    "train_loss": "training loss",
    "train_error": "training error, %",
    "val_error": "validation error, %",
    "val_error5": "validation top-5 error, %",
    "condition_mean": "condition number, mean",
    "condition_median": "condition number, median",
    "eigenvalue_ratio": "first eigenvalue ratio λ₁ / λ₂",
}
SWITCH, DECAY = "switch", "rate decay"


@styled
def learning_curves(
    records: Sequence[Record],
    value: str = "val_error",
    switch_epoch: int | None = None,
    decay_epochs: Sequence[int] = (),
    *,
    width: float = WIDE,
) -> Figure:
    """One line per run: the mean over its seeds in a band of one standard deviation; hybrid dashed.

    Args:
        records: mappings with ``run``, ``method``, ``protocol`` (``"standalone"`` or ``"hybrid"``),
            ``seed``, ``epoch`` and the value; errors in percent.
        value: which number to draw.
        switch_epoch: first epoch with the second method of the hybrid protocol.
        decay_epochs: first epochs with a lower learning rate.
        width: inches.
    """
    lines, missing = collect(records, "epoch", value)
    figure = Figure(figsize=(width, 4.2), layout="constrained")
    axes = figure.add_subplot()
    handles = _draw_lines(axes, lines, run_styles(records))
    decades = _scale(axes, lines, factor=3)  # what matters is at the low end
    _mark_changes(axes, switch_epoch, decay_epochs, labels=True)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel(_label(value, decades))
    below(figure, "epoch", *_remarks(lines, missing))
    legend(figure, handles, width)
    return figure


@styled
def learning_curve_panels(
    records: Sequence[Record],
    value: str = "val_error",
    switch_epoch: int | None = None,
    decay_epochs: Sequence[int] = (),
    *,
    width: float = WIDE,
) -> Figure:
    """:func:`learning_curves` for many methods: one panel each, with the others in grey behind it."""
    lines, missing = collect(records, "epoch", value)
    looks = run_styles(records)
    method_of = {run: method for run, method, _ in map(tags, records)}
    methods = list(dict.fromkeys(method_of[line.run] for line in lines))
    columns = min(len(methods), max(1, round(width / 2.2)))
    rows = math.ceil(len(methods) / columns)
    figure = Figure(figsize=(width, 0.6 + 1.7 * rows), layout="constrained")
    grid = list(figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flat)
    for axes, method in zip(grid, methods, strict=False):
        for line in lines:
            if method_of[line.run] != method:
                axes.plot(line.x, line.centre, color=FAINT, linewidth=1)
        _draw_lines(axes, [line for line in lines if method_of[line.run] == method], looks)
        _mark_changes(axes, switch_epoch, decay_epochs, labels=False)
        axes.set_title(fit(method, width / columns - 0.4), loc="left")
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    decades = _scale(grid[0], lines, factor=3)
    for axes in grid[len(methods) :]:
        axes.set_visible(False)
    figure.supylabel(_label(value, decades), fontsize=9)
    below(figure, "epoch", *_remarks(lines, missing))
    legend(figure, _protocol_handles(records, switch_epoch, decay_epochs), width)
    return figure


@styled
def spectrum_over_training(
    records: Sequence[Record],
    value: str = "condition_mean",
    x: str = "step",
    *,
    width: float = WIDE,
) -> Figure:
    """A property of the covariances over training, one line per run; logarithmic if it spans decades.

    Args:
        records: mappings with ``run``, ``step``, ``epoch`` and the value, and ``method``,
            ``protocol`` and ``seed`` where there are several.
        value: which number to draw.
        x: ``"step"`` or ``"epoch"``.
        width: inches.
    """
    lines, missing = collect(records, x, value)
    figure = Figure(figsize=(width, 3.6), layout="constrained")
    axes = figure.add_subplot()
    handles = _draw_lines(axes, lines, run_styles(records))
    decades = _scale(axes, lines, factor=30)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel(_label(value, decades))
    below(figure, x, *_remarks(lines, missing))
    legend(figure, handles, width)
    return figure


def _draw_lines(
    axes: Axes, lines: Sequence[Series], looks: Mapping[str, RunStyle]
) -> dict[str, Line2D]:
    """Draw lines in their bands; return the handles of the legend by run."""
    handles = {}
    for line in lines:
        style = looks[line.run]
        if line.seeds > 1:
            axes.fill_between(
                line.x, line.low, line.high, color=style.colour, alpha=0.14, linewidth=0
            )
        (handles[line.run],) = axes.plot(
            line.x,
            line.centre,
            color=style.colour,
            linestyle=style.line,
            marker=style.marker,
            markevery=max(1, len(line.x) // 8),
            markeredgewidth=0,
        )
    return handles


def _mark_changes(
    axes: Axes, switch_epoch: int | None, decay_epochs: Sequence[int], *, labels: bool
) -> None:
    """Mark changes at the start of an epoch e, between the values at the ends of e - 1 and e."""
    changes = [(epoch, DECAY, ":", 1.01 if labels else 1.0) for epoch in decay_epochs]
    if switch_epoch is not None:
        changes.append((switch_epoch, SWITCH, "-", 1.06 if labels else 1.0))
    across = axes.get_xaxis_transform()
    for epoch, text, line, height in changes:
        x = epoch - 0.5
        look: dict[str, Any] = {"transform": across, "color": MUTED}
        axes.plot([x, x], [0, height], line, linewidth=1, clip_on=False, **look)
        if labels:
            axes.text(x, height, text, ha="center", va="bottom", size=8, **look)


def _protocol_handles(
    records: Sequence[Record], switch_epoch: int | None, decay_epochs: Sequence[int]
) -> dict[str, Line2D]:
    present = {protocol for _, _, protocol in map(tags, records)}
    handles = {
        name: Line2D([], [], color=INK, linestyle=line)
        for name, line in LINES.items()
        if name in present
    }
    if switch_epoch is not None:
        handles[SWITCH] = Line2D([], [], color=MUTED, linewidth=1)
    if decay_epochs:
        handles[DECAY] = Line2D([], [], color=MUTED, linewidth=1, linestyle=":")
    return handles


def _scale(axes: Axes, lines: Sequence[Series], factor: float) -> bool:
    """Make the axis logarithmic if the lines span that factor or reach huge numbers; return whether."""
    values = [value for line in lines for value in line.centre]
    high = min(factor * min(values), 1e5) if values else 0
    decades = bool(values) and min(values) > 0 and max(values) > high
    if decades:
        # A band may reach zero or below; the axis is that of the lines.
        axes.set_ylim(min(values) / 1.15, max(values) * 1.15)
        logarithmic(axes, "y")
    return decades


def _label(value: str, decades: bool) -> str:
    return LABELS.get(value, value.replace("_", " ")) + ", logarithmic" * decades


def _remarks(lines: Sequence[Series], missing: int) -> list[str]:
    """Remarks on bands and on values left out."""
    seeds = max((line.seeds for line in lines), default=1)
    bands = [f"bands: ± one standard deviation over {seeds} seeds"] if seeds > 1 else []
    return bands + left_out(missing)


# --------------------------------------------------------------------------------------------------
# Records of several seeds as one line with a spread


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
