"""The pictures of the page on the question of the title."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rootpool.report.plots import WIDE
from rootpool.report.plots.drawing import below, legend, styled
from rootpool.report.plots.palette import FAINT, STYLES

__all__ = ["draw_sweep"]

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
