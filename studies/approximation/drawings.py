"""The pictures of the page on the question of the title."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rootpool.report.plots import WIDE
from rootpool.report.plots.drawing import below, legend, logarithmic, styled
from rootpool.report.plots.palette import FAINT, INK, STYLES
from rootpool.report.records import Record
from studies.engine.questions import proportion

__all__ = ["draw_law", "draw_sweep"]

LOOKS = list(STYLES.values())


@styled
def draw_sweep(
    lines: Mapping[str, Sequence[Mapping[str, Any]]],
    ticks: Mapping[float, str],
    label: str,
    *,
    width: float = WIDE,
) -> Figure:
    """Differences to the exact root along a parameter, one line per network, with their intervals.

    Args:
        lines: by network, mappings with ``place`` on the axis, ``mean``, ``low`` and ``high``.
        ticks: names of the places.
        label: of the parameter.
        width: inches.
    """
    figure = Figure(figsize=(width, 3.2), layout="constrained")
    axes = figure.add_subplot()
    axes.axhline(0, color=FAINT, linewidth=1)
    handles: dict[str, Line2D] = {}
    shift = 0.02 * (max(ticks) - min(ticks))
    for k, (look, (name, points)) in enumerate(zip(LOOKS, lines.items(), strict=False)):
        x = [point["place"] + shift * (k - (len(lines) - 1) / 2) for point in points]
        style: dict[str, Any] = {"color": look.colour, "marker": look.marker, "linewidth": 1.2}
        (handles[name],) = axes.plot(x, [point["mean"] for point in points], **style)
        for place, point in zip(x, points, strict=True):
            if point["low"] is not None:
                axes.plot([place, place], [point["low"], point["high"]], color=look.colour)
    axes.set_xticks(list(ticks), list(ticks.values()))
    axes.set_ylabel("error against the root, points")
    below(figure, f"{label} (below zero: better than the exact square root; bars: 95 % intervals)")
    legend(figure, handles, width)
    return figure


@styled
def draw_law(
    layer: Sequence[Record],
    failed: Mapping[str, Sequence[tuple[float, int, int]]],
    *,
    width: float = WIDE,
) -> Figure:
    """What is above the floor, and what fails, by the largest eigenvalue.

    Args:
        layer: records of :func:`studies.approximation.layer.measure_layer` of one form and precision.
        failed: by arm, the largest eigenvalue with the numbers of runs that failed and that did not.
        width: inches.
    """
    figure = Figure(figsize=(width, 5.2), layout="constrained")
    above, below_it = figure.subplots(2, 1, sharex=True)
    handles: dict[str, Line2D] = {}
    for look, name in zip(LOOKS, dict.fromkeys(r["features"] for r in layer), strict=False):
        own = sorted((r for r in layer if r["features"] == name), key=lambda r: r["lambda_1"])
        x, size = [r["lambda_1"] for r in own], f"{own[0]['channels']:g} × {own[0]['positions']:g}"
        (handles[size],) = above.plot(
            x, [r["above"] for r in own], look.marker, color=look.colour, linestyle=""
        )
        above.plot(x, [r["predicted_above"] for r in own], color=look.colour, linewidth=0.8)
    above.set_ylabel("share of null space above eps")
    for k, (look, (name, points)) in enumerate(zip(LOOKS[::-1], failed.items(), strict=False)):
        x = [lam * 1.12 ** (k - (len(failed) - 1) / 2) for lam, *_ in points]
        shares = [count / (count + rest) for _, count, rest in points]
        line = "--" if "float32" in name else "-"
        (handles[name],) = below_it.plot(
            x, shares, look.marker, color=look.colour, linewidth=0.8, linestyle=line
        )
        for place, (_, count, rest) in zip(x, points, strict=True):
            low, high = proportion(count, count + rest)
            below_it.plot([place, place], [low, high], color=look.colour, linewidth=0.8)
    below_it.set_ylabel("share of runs that fail")
    for axes in (above, below_it):
        axes.set_ylim(-0.05, 1.05)
        axes.axvspan(0.0038, 0.076, color=FAINT, alpha=0.5, linewidth=0)
    above.text(0.017, 0.5, "the paper's\nAlexNet", ha="center", color=INK)
    logarithmic(below_it, "x")
    below(figure, "largest eigenvalue of the covariances, logarithmic")
    legend(figure, handles, width)
    return figure
