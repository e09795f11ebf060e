"""The pictures of the page on the question of the title."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rootpool.report.plots import WIDE
from rootpool.report.plots.drawing import below, legend, logarithmic, styled
from rootpool.report.plots.palette import FAINT, FREE, INK, MUTED, STYLES
from rootpool.report.records import Record
from studies.engine.questions import proportion

__all__ = ["draw_law", "draw_sweep"]


@styled
def draw_sweep(
    lines: Mapping[str, Sequence[Mapping[str, Any]]],
    ticks: Mapping[float, str],
    label: str,
) -> Figure:
    """Differences to the exact root along a parameter, one line per network, with their intervals.

    Args:
        lines: by network, mappings with ``place`` on the axis, ``mean``, ``low`` and ``high``.
        ticks: names of the places.
        label: of the parameter.
    """
    figure = Figure(figsize=(WIDE, 3.2), layout="constrained")
    axes = figure.add_subplot()
    axes.axhline(0, color=FAINT, linewidth=1)
    handles: dict[str, Line2D] = {}
    shift = 0.02 * (max(ticks) - min(ticks))
    for k, (look, (name, points)) in enumerate(zip(FREE, lines.items(), strict=False)):
        x = [point["place"] + shift * (k - (len(lines) - 1) / 2) for point in points]
        style: dict[str, Any] = {"color": look.colour, "marker": look.marker, "linewidth": 1.2}
        (handles[name],) = axes.plot(x, [point["mean"] for point in points], **style)
        for place, point in zip(x, points, strict=True):
            if point["low"] is not None:
                axes.plot([place, place], [point["low"], point["high"]], color=look.colour)
    axes.set_xticks(list(ticks), list(ticks.values()))
    axes.set_ylabel("error against the root, points")
    below(figure, f"{label} (below zero: better than the exact square root; bars: 95 % intervals)")
    legend(figure, handles, WIDE)
    return figure


@styled
def draw_law(
    layer: Sequence[Record], failed: Mapping[str, Sequence[tuple[float, int, int]]]
) -> Figure:
    """What is above the floor, and what fails, by the largest eigenvalue.

    Args:
        layer: records of :func:`studies.approximation.layer.measure_layer` of one form and precision.
        failed: by arm, the largest eigenvalue with the numbers of runs that failed and that did not.
    """
    figure = Figure(figsize=(WIDE, 6.6), layout="constrained")
    above, *panels = figure.subplots(3, 1, sharex=True)
    for marker, name in zip("osv^", dict.fromkeys(r["features"] for r in layer), strict=False):
        own = sorted((r for r in layer if r["features"] == name), key=lambda r: r["lambda_1"])
        x, size = [r["lambda_1"] for r in own], f"{own[0]['channels']:g} × {own[0]['positions']:g}"
        above.plot(x, [r["above"] for r in own], marker, color=INK, label=size)
        above.plot(x, [r["predicted_above"] for r in own], color=MUTED, linewidth=0.8)
    above.set_ylabel("null space above eps")
    for axes, precision in zip(panels, ("float64", "float32"), strict=True):
        arms = {name: own for name, own in failed.items() if name.endswith(precision)}
        for k, (name, points) in enumerate(arms.items()):
            x = [lam * 1.15 ** (k - (len(arms) - 1) / 2) for lam, *_ in points]
            shares = [count / (count + rest) for _, count, rest in points]
            look, line = STYLES[name.partition(",")[0]], ":" if "released" in name else "-"
            label = name.removesuffix(f", {precision}")
            axes.plot(x, shares, look.marker, color=look.colour, linestyle=line, label=label)
            for place, (_, count, rest) in zip(x, points, strict=True):
                ends = proportion(count, count + rest)
                axes.plot([place, place], ends, color=look.colour, linewidth=0.8, alpha=0.6)
        axes.set_ylabel(f"runs that fail, {precision}")
    for axes in (above, *panels):
        axes.set_ylim(-0.05, 1.05)
        axes.axvspan(0.0038, 0.076, color=FAINT, alpha=0.5, linewidth=0)
    above.text(0.017, 0.5, "the paper's\nAlexNet", ha="center", color=INK)
    above.legend(loc="center right", title="channels × positions", title_fontsize=9)
    panels[0].legend(loc="upper left")
    logarithmic(above, "x")
    below(figure, "largest eigenvalue of the covariances, logarithmic")
    return figure
