"""The pictures of the page on the question of the title."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rootpool.report.plots import WIDE
from rootpool.report.plots.drawing import below, legend, logarithmic, styled
from rootpool.report.plots.palette import FAINT, INK, STYLES
from rootpool.report.records import Record

__all__ = ["draw_failure", "draw_filters", "draw_sweep"]

LOOKS = list(STYLES.values())
PANELS = {
    "gradient": "norm of the gradient",
    "error": "its relative error",
    "kernel": "largest kernel entry",
    "loss": "loss",
}
# Newton-Schulz from light to dark.
NEWTON, ROOT = STYLES["isqrt-cov"].colour, STYLES["exact"].colour


@styled
def draw_failure(traces: Mapping[str, Sequence[Record]], *, width: float = WIDE) -> Figure:
    """Step by step: the gradient and the exact one, the error, the kernel, the loss.

    Args:
        traces: records of :func:`studies.approximation.failure.watch_training` by name.
        width: inches.
    """
    figure = Figure(figsize=(width, 6.4), layout="constrained")
    panels: Sequence[Axes] = list(figure.subplots(len(PANELS), 1, sharex=True))
    handles: dict[str, Line2D] = {}
    for look, (name, records) in zip(LOOKS, traces.items(), strict=False):
        for axes, value in zip(panels, PANELS, strict=True):
            x, y = _finite(records, "step", value)
            (handles[name],) = axes.plot(x, y, color=look.colour, linewidth=1.2)
        x, y = _finite(records, "step", "exact")
        (line,) = panels[0].plot(x, y, color=INK, linewidth=0.8, linestyle=":")
        handles["exact, for the same features"] = line
    for axes, label in zip(panels, PANELS.values(), strict=True):
        axes.set_ylabel(label)
        logarithmic(axes, "y")
    panels[1].axhline(1, color=INK, linewidth=0.8)
    below(
        figure,
        "step of the training; above the line in the second plot, the gradient is mostly error",
    )
    legend(figure, handles, width)
    return figure


def _finite(records: Sequence[Record], x: str, y: str) -> tuple[list[float], list[float]]:
    """The places where a value is there and can be drawn on a logarithmic axis."""
    found = [(float(r[x] or 0), float(r[y] or 0)) for r in records if r.get(y) is not None]
    found = [(a, b) for a, b in found if 0 < b < float("inf")]
    return [a for a, _ in found], [b for _, b in found]


@styled
def draw_filters(
    newton: Sequence[Record], others: Sequence[Record], *, width: float = WIDE
) -> Figure:
    """Filters against the square root: Newton-Schulz on the left, powers and learned ones on the right.

    Args:
        newton: records of :func:`studies.approximation.filters.spectral_response`, in order of iterations.
        others: the same for other filters.
        width: inches.
    """
    figure = Figure(figsize=(width, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True, sharex=True)
    handles: dict[str, Line2D] = {}
    by_run = _by_run(newton)
    for k, (name, (x, y)) in enumerate(by_run.items()):
        shade = 0.25 + 0.75 * k / max(1, len(by_run) - 1)
        (handles[name],) = left.plot(x, y, color=NEWTON, alpha=shade, linewidth=1.4)
    free = [look for look in LOOKS if look.colour not in (NEWTON, ROOT)]
    for look, (name, (x, y)) in zip(free, _by_run(others).items(), strict=False):
        (handles[name],) = right.plot(x, y, color=look.colour, linewidth=1.4)
    for axes in (left, right):
        axes.axhline(1, color=ROOT, linewidth=1.2)
        logarithmic(axes, "x")
        logarithmic(axes, "y")
    left.set_title("Newton-Schulz", loc="left")
    right.set_title("powers, and what was learned", loc="left")
    left.set_ylabel("value over the square root")
    handles["square root"] = Line2D([], [], color=ROOT)
    below(figure, "eigenvalue over the trace")
    legend(figure, handles, width)
    return figure


def _by_run(records: Sequence[Record]) -> dict[str, tuple[list[float], list[float]]]:
    found: dict[str, tuple[list[float], list[float]]] = {}
    for record in records:
        x, y = found.setdefault(str(record["run"]), ([], []))
        x.append(float(record["eigenvalue"] or 0))
        y.append(float(record["share"] or 0))
    return found


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
