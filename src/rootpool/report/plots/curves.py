"""Runs over time: errors by epoch, spectra by step."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from rootpool.report.records import Record

from .drawing import WIDE, below, checked, fit, left_out, legend, logarithmic, styled
from .palette import FAINT, MUTED, Style, run_styles, tags

__all__ = ["learning_curves"]

LABELS = {
    "train_loss": "training loss",
    "train_error": "training error, %",
    "val_error": "validation error, %",
    "val_error5": "validation top-5 error, %",
    "condition_mean": "condition number, mean",
    "eigenvalue_ratio": "first eigenvalue ratio λ₁ / λ₂",
}


@styled
def learning_curves(
    records: Sequence[Record],
    value: str = "val_error",
    switch_epoch: int | None = None,
    decay_epochs: Sequence[int] = (),
    *,
    x: str = "epoch",
    panels: bool = False,
) -> Figure:
    """One line per run: the mean over its seeds in a band of one standard deviation; hybrid dashed.

    The axis is logarithmic where the lines span a factor of three: what matters is at the low end.

    Args:
        records: mappings with ``run``, ``epoch`` and the value, and ``method``, ``protocol``
            (``"standalone"`` or ``"hybrid"``) and ``seed`` where there are several; errors in percent.
        value: which number to draw: of the history or of the spectrum of a run.
        switch_epoch: first epoch with the second method of the hybrid protocol.
        decay_epochs: first epochs with a lower learning rate.
        x: ``"epoch"`` or ``"step"``.
        panels: for many methods: a panel for each, with the others in grey behind it.

    Returns:
        The figure.
    """
    lines, missing = collect(records, x, value)
    looks = run_styles(records)
    method_of = {run: method if panels else "" for run, method, _ in map(tags, records)}
    methods = list(dict.fromkeys(method_of[line.run] for line in lines)) or [""]
    columns = min(len(methods), max(1, round(WIDE / 2.2)))
    rows = math.ceil(len(methods) / columns)
    height = 0.9 + 1.7 * rows if panels else 4.0
    figure = Figure(figsize=(WIDE, height), layout="constrained")
    grid = list(figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flat)
    for axes, method in zip(grid, methods, strict=False):
        for line in lines:
            if method_of[line.run] != method:
                axes.plot(line.x, line.centre, color=FAINT, linewidth=1)
        own = [line for line in lines if method_of[line.run] == method]
        handles = _draw_lines(axes, own, looks)
        changes = _mark_changes(axes, switch_epoch, decay_epochs)
        axes.set_title(fit(method, WIDE / columns - 0.4), loc="left")
        axes.xaxis.set_major_locator(MaxNLocator(4 if panels else "auto", integer=True))
    for axes in grid[len(methods) :]:
        axes.set_visible(False)
    figure.supylabel(_label(grid[0], value, lines), fontsize=9)
    if panels:  # the titles name the runs
        protocols = {protocol: looks[run].line for run, _, protocol in map(tags, records)}
        handles = {name: Line2D([], [], color=MUTED, linestyle=s) for name, s in protocols.items()}
    seeds = max((line.seeds for line in lines), default=1)
    bands = [f"bands: ± one standard deviation over {seeds} seeds"] if seeds > 1 else []
    below(figure, x, *bands, *left_out(missing))
    legend(figure, handles | changes, WIDE)
    return figure


def _draw_lines(
    axes: Axes, lines: Sequence[Series], looks: Mapping[str, Style]
) -> dict[str, Line2D]:
    """Draw lines in their bands; return the handles of the legend by run."""
    handles = {}
    for line in lines:
        colour, marker, dashes = looks[line.run]
        if line.seeds > 1:
            axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.14, linewidth=0)
        (handles[line.run],) = axes.plot(
            line.x,
            line.centre,
            color=colour,
            linestyle=dashes,
            marker=marker,
            markevery=max(1, len(line.x) // 8),
            markeredgewidth=0,
        )
    return handles


def _mark_changes(
    axes: Axes, switch_epoch: int | None, decay_epochs: Sequence[int]
) -> dict[str, Line2D]:
    """Mark changes at the start of an epoch, between the values at the ends of the one before and of this."""
    handles = {}
    look: dict[str, Any] = {"color": MUTED, "linewidth": 1}
    for epoch in decay_epochs:
        handles["lower learning rate"] = axes.axvline(epoch + 0.5, linestyle=":", **look)
    if switch_epoch is not None:
        handles["switch of the method"] = axes.axvline(switch_epoch + 0.5, **look)
    return handles


def _label(axes: Axes, value: str, lines: Sequence[Series]) -> str:
    """The name of a value; its axis becomes logarithmic if the lines span a factor or are huge."""
    name = LABELS.get(value, value.replace("_", " "))
    values = [value for line in lines for value in line.centre]
    if not values or min(values) <= 0 or max(values) <= min(3 * min(values), 1e5):
        return name
    # A band may reach zero or below; the axis follows the lines.
    axes.set_ylim(min(values) / 1.15, max(values) * 1.15)
    logarithmic(axes, "y")
    return f"{name}, logarithmic"


# --------------------------------------------------------------------------------------------------
# Records of several seeds as one line with a spread


class Series(NamedTuple):
    """One run: mean over seeds at each place, and one standard deviation below and above it."""

    run: str
    seeds: int
    x: Sequence[float]
    centre: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


def collect(records: Sequence[Record], x: str, value: str) -> tuple[list[Series], int]:
    """Runs in order of appearance, and the number of values left out because they are not finite.

    >>> records = [{"run": "a", "seed": s, "epoch": 0, "loss": v} for s, v in enumerate([1.0, 3.0])]
    >>> line = collect(records, "epoch", "loss")[0][0]
    >>> line.centre, line.seeds
    ([2.0], 2)
    """
    finite = [r for r in checked(records, "run", x, value) if math.isfinite(r[value])]
    runs: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    seeds: dict[str, set[int]] = defaultdict(set)
    for record in finite:
        place = record[x] + (x == "epoch")  # shown from one, as everywhere
        runs[record["run"]][place].append(record[value])
        seeds[record["run"]].add(record.get("seed", 0))
    lines = []
    for run, at in runs.items():
        values = [(fmean(v), stdev(v) if len(v) > 1 else 0.0) for _, v in sorted(at.items())]
        band = ([mean + sign * spread for mean, spread in values] for sign in (0, -1, 1))
        lines.append(Series(run, len(seeds[run]), sorted(at), *band))
    return lines, len(records) - len(finite)
