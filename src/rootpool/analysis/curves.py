"""Runs over time: errors by epoch, spectra by step."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from .drawing import WIDE, Record, legend, logarithmic, styled
from .palette import GRID, INK, MUTED, styles
from .series import Series, collect

__all__ = ["learning_curve_panels", "learning_curves", "spectrum_over_training"]

LABELS = {
    "train_loss": "training loss",
    "train_error": "training error, %",
    "val_error": "validation error, %",
    "condition_mean": "condition number, mean",
    "condition_median": "condition number, median",
    "eigenvalue_ratio": "first eigenvalue ratio λ₁ / λ₂",
}
DASHES = {"standalone": "-", "hybrid": "--"}
SWITCH, DECAY = "switch of method", "rate decay"


@styled
def learning_curves(
    records: Sequence[Record],
    value: str = "val_error",
    switch_epoch: int | None = None,
    decay_epochs: Sequence[int] = (),
    *,
    width: float = WIDE,
) -> Figure:
    """One line a run, the mean over its seeds, in a band of one standard deviation; hybrid dashed.

    Args:
        records: mappings with ``run``, ``method``, ``protocol`` (``"standalone"`` or ``"hybrid"``),
            ``seed``, ``epoch`` and the value; errors in percent.
        value: which number to draw.
        switch_epoch: first epoch with the second method of the hybrid protocol.
        decay_epochs: first epochs with a lower learning rate.
        width: inches.
    """
    lines, left_out = collect(records, "epoch", value)
    figure = Figure(figsize=(width, 4.0), layout="constrained")
    axes = figure.add_subplot()
    handles = _draw_lines(axes, lines)
    _mark_changes(axes, switch_epoch, decay_epochs, labels=True)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel(LABELS.get(value, value))
    axes.set_xlabel(_below("epoch", lines, left_out))
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
    """:func:`learning_curves` for many methods: one panel each, the others in grey behind it."""
    lines, left_out = collect(records, "epoch", value)
    methods = list(dict.fromkeys(line.method for line in lines))
    columns = min(len(methods), max(1, round(width / 2.2)))
    rows = math.ceil(len(methods) / columns)
    figure = Figure(figsize=(width, 0.6 + 1.7 * rows), layout="constrained")
    grid = list(figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flat)
    for axes, method in zip(grid, methods, strict=False):
        for line in lines:
            if line.method != method:
                axes.plot(line.x, line.centre, color=GRID.light, linewidth=1)
        _draw_lines(axes, [line for line in lines if line.method == method])
        _mark_changes(axes, switch_epoch, decay_epochs, labels=False)
        axes.set_title(method, loc="left")
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    for axes in grid[len(methods) :]:
        axes.set_visible(False)
    figure.supylabel(LABELS.get(value, value), fontsize=9)
    figure.supxlabel(_below("epoch", lines, left_out), fontsize=9)
    legend(figure, _protocol_handles(lines, switch_epoch, decay_epochs), width)
    return figure


@styled
def spectrum_over_training(
    records: Sequence[Record],
    value: str = "condition_mean",
    x: str = "step",
    *,
    width: float = WIDE,
) -> Figure:
    """A property of the covariances over training, one line a run; logarithmic if it spans decades.

    Args:
        records: mappings with ``run``, ``step``, ``epoch`` and the value, and ``method``,
            ``protocol`` and ``seed`` where there are several.
        value: which number to draw.
        x: ``"step"`` or ``"epoch"``.
        width: inches.
    """
    finite = [record[value] for record in records if math.isfinite(record.get(value, math.nan))]
    decades = bool(finite) and min(finite) > 0 and max(finite) > 30 * min(finite)
    lines, left_out = collect(records, x, value, geometric=decades)
    figure = Figure(figsize=(width, 3.6), layout="constrained")
    axes = figure.add_subplot()
    handles = _draw_lines(axes, lines)
    if decades:
        logarithmic(axes, axes.yaxis)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel(LABELS.get(value, value.replace("_", " ")))
    axes.set_xlabel(_below(x, lines, left_out))
    legend(figure, handles, width)
    return figure


def _draw_lines(axes: Axes, lines: Sequence[Series]) -> dict[str, Line2D]:
    """Lines in their bands; the legend's handles by run."""
    looks = styles(line.method for line in lines)
    handles = {}
    for line in lines:
        style = looks[line.method]
        if line.seeds > 1:
            axes.fill_between(
                line.x, line.low, line.high, color=style.colour, alpha=0.14, linewidth=0
            )
        (handles[line.run],) = axes.plot(
            line.x,
            line.centre,
            color=style.colour,
            linestyle=DASHES.get(line.protocol, "-"),
            marker=style.marker,
            markevery=max(1, len(line.x) // 8),
            markeredgewidth=0,
        )
    return handles


def _mark_changes(
    axes: Axes, switch_epoch: int | None, decay_epochs: Sequence[int], *, labels: bool
) -> None:
    """A change at the start of epoch e lies between the values at the ends of e - 1 and e."""
    changes = [(epoch, DECAY, ":", 1.01) for epoch in decay_epochs]
    if switch_epoch is not None:
        changes.append((switch_epoch, SWITCH, "-", 1.06))  # a line higher than the decays
    across = axes.get_xaxis_transform()
    for epoch, text, line, height in changes:
        x = epoch - 0.5
        look = {"transform": across, "color": MUTED.light}
        axes.plot([x, x], [0, height], line, linewidth=1, clip_on=False, **look)
        if labels:
            axes.text(x, height, text, ha="center", va="bottom", size=8, **look)


def _protocol_handles(
    lines: Sequence[Series], switch_epoch: int | None, decay_epochs: Sequence[int]
) -> dict[str, Line2D]:
    used = [name for name in DASHES if any(line.protocol == name for line in lines)]
    handles = {name: Line2D([], [], color=INK.light, linestyle=DASHES[name]) for name in used}
    if switch_epoch is not None:
        handles[SWITCH] = Line2D([], [], color=MUTED.light, linewidth=1)
    if decay_epochs:
        handles[DECAY] = Line2D([], [], color=MUTED.light, linewidth=1, linestyle=":")
    return handles


def _below(name: str, lines: Sequence[Series], left_out: int) -> str:
    """The label of the x axis, with what a reader must know about bands and gaps."""
    parts = [name]
    seeds = max((line.seeds for line in lines), default=1)
    if seeds > 1:
        parts.append(f"bands: ± one standard deviation over {seeds} seeds")
    if left_out:
        parts.append(f"{left_out} value{'s' * (left_out > 1)} not finite, left out")
    return "\n".join(parts)
