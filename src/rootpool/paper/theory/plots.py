"""Pictures of the statements, for a reader who does not have the paper at hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rootpool.report.plots.drawing import WIDE, below, fit, legend, logarithmic, styled
from rootpool.report.plots.palette import INK, MUTED, STYLES

from ..result import Result
from .common import numbers

__all__ = ["PLOTS", "draw"]

OURS, THEIRS = STYLES["exact"].colour, STYLES["svd-pade"].colour
LOOKS = list(STYLES.values())
FLOAT64 = 2.0**-52
NOTHING = 1e2  # where a cross stands for what is no number


def _axes(width: float, height: float = 3.4) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def _pade_rank(result: Result, width: float) -> Figure:
    figure, axes = _axes(width, 2.8)
    degrees = numbers(result.records, "degree")
    (unknowns,) = axes.plot(degrees, numbers(result.records, "unknowns"), "o-", color=MUTED.light)
    (rank,) = axes.plot(degrees, numbers(result.records, "rank"), "o-", color=OURS)
    logarithmic(axes, "x")
    logarithmic(axes, "y")
    axes.set_ylabel("number, logarithmic")
    below(figure, "degree of the approximant, logarithmic")
    legend(figure, {"unknown coefficients": unknowns, "independent equations": rank}, width)
    return figure


def _pade_coefficients(result: Result, width: float) -> Figure:
    figure, axes = _axes(width, 2.8)
    digits = [str(r["digits"]) for r in result.records]
    handles = {}
    for (key, name), look in zip(
        (("p_1", "p₁"), ("p_2", "p₂"), ("q_1", "q₁")), LOOKS, strict=False
    ):
        (handles[name],) = axes.plot(
            digits, numbers(result.records, key), look.marker, color=look.colour, markersize=7
        )
    axes.set_ylabel("value that comes out")
    below(figure, "decimal digits of the linear solve")
    legend(figure, handles, width)
    return figure


def _power_iteration_rate(result: Result, width: float) -> Figure:
    figure, axes = _axes(width)
    handles = {}
    for ratio, look in zip(dict.fromkeys(r["ratio"] for r in result.records), LOOKS, strict=False):
        error = numbers(result.records, "error", ratio=ratio)
        (line,) = axes.plot(error, color=look.colour, marker=look.marker, markevery=20)
        axes.plot(numbers(result.records, "predicted", ratio=ratio), ":", color=look.colour)
        handles[f"λ₂/λ₁ = {ratio:g}"] = line
    handles["(λ₂/λ₁) to the power k"] = Line2D([], [], color=INK.light, linestyle=":")
    axes.set_ylim(1e-16, 30)
    logarithmic(axes, "y")
    axes.set_ylabel("distance, logarithmic")
    below(figure, "iteration k; distance to the leading eigenvector")
    legend(figure, handles, width)
    return figure


def _power_iteration_is_taylor(result: Result, width: float) -> Figure:
    figure, axes = _axes(width)
    handles = {}
    which = dict.fromkeys(r["eigenvector"] for r in result.records)
    for eigenvector, look in zip(which, LOOKS, strict=False):
        steps = numbers(result.records, "iterations", eigenvector=eigenvector)
        found = numbers(result.records, "difference", eigenvector=eigenvector)
        (line,) = axes.plot(steps, found, marker=look.marker, color=look.colour)
        handles[f"eigenvector {eigenvector}"] = line
    handles["one rounding in float64"] = axes.axhline(FLOAT64, color=INK.light, linestyle=":")
    axes.set_ylim(1e-17, 1)
    logarithmic(axes, "y")
    logarithmic(axes, "x")
    axes.set_ylabel("relative difference, logarithmic")
    below(figure, "iterations, which are the terms of the series, logarithmic")
    legend(figure, handles, width)
    return figure


def _ties(result: Result, width: float) -> Figure:
    kinds = list(dict.fromkeys(str(r["spectrum"]) for r in result.records))
    methods = list(dict.fromkeys(str(r["method"]) for r in result.records))[::-1]
    columns = 2 if width >= WIDE else 1
    rows = math.ceil(len(kinds) / columns)
    figure = Figure(figsize=(width, 0.5 + 1.9 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flat
    handles: dict[str, Line2D] = {}
    for axes, kind in zip(grid, kinds, strict=True):
        found = [r for r in result.records if r["spectrum"] == kind]
        axes.set_title(kind, loc="left")
        for key, colour, name, shift in (
            ("reference_error", THEIRS, "the paper's equations", 0.16),
            ("our_error", OURS, "rootpool", -0.16),
        ):
            points = [(methods.index(str(r["method"])) + shift, r[key]) for r in found if key in r]
            handles[name] = _dots(axes, points, colour)
        axes.set_yticks(range(len(methods)), [fit(method, 1.4, lines=3) for method in methods])
        axes.grid(False, axis="y")
        axes.set_xlim(1e-17, 1e6)
        logarithmic(axes, "x")
        axes.set_xticks([1e-15, 1e-10, 1e-5, 1, 1e5])
    below(figure, "relative error of the gradient, logarithmic; ×: no number comes out")
    legend(figure, handles, width)
    return figure


def _dots(axes: Axes, points: Sequence[tuple[float, object]], colour: str) -> Line2D:
    """Dots, and for what is no number a cross at the edge that says so."""
    finite = [(y, float(x)) for y, x in points if isinstance(x, float) and math.isfinite(x)]
    (dots,) = axes.plot(
        [max(x, 1e-16) for _, x in finite], [y for y, _ in finite], "o", color=colour
    )
    for y, x in points:
        if isinstance(x, float) and not math.isfinite(x):
            axes.plot(NOTHING, y, "x", color=colour, markersize=6)
            axes.annotate(
                "none", (NOTHING, y), (6, 0), textcoords="offset points", va="center", size=8
            )
    return dots


def _exact_gradient(result: Result, width: float) -> Figure:
    figure, axes = _axes(width)
    handles = {}
    for way, colour in (("torch.linalg.eigh", THEIRS), ("rootpool.linalg.sqrtm", OURS)):
        for dtype, style in (("float64", "o-"), ("float32", "s--")):
            gaps = [g for g in numbers(result.records, "gap", way=way, dtype=dtype) if g]
            errors = numbers(result.records, "error", way=way, dtype=dtype)
            (line,) = axes.plot(gaps, errors[: len(gaps)], style, color=colour)
            handles[f"{way}, {dtype}"] = line
            tie = errors[-1]
            marker = style[0] if math.isfinite(tie) else "x"
            axes.plot(1e-16, max(tie, 1e-17) if math.isfinite(tie) else 2.0, marker, color=colour)
    axes.annotate("none", (1e-16, 2.0), (8, 0), textcoords="offset points", va="center", size=8)
    axes.set(xlim=(3e-17, 3), ylim=(1e-17, 10))
    logarithmic(axes, "y")
    axes.set_xscale("log")
    axes.minorticks_off()
    axes.set_xticks([1e-16, 1e-12, 1e-8, 1e-4, 1], ["tie", "10⁻¹²", "10⁻⁸", "10⁻⁴", "1"])
    axes.set_ylabel("relative error, logarithmic")
    below(figure, "gap between the two eigenvalues, logarithmic")
    legend(figure, handles, width)
    return figure


PLOTS: dict[str, Callable[[Result, float], Figure]] = {
    "theory:pade-rank": _pade_rank,
    "theory:pade-coefficients": _pade_coefficients,
    "theory:power-iteration-rate": _power_iteration_rate,
    "theory:power-iteration-is-taylor": _power_iteration_is_taylor,
    "theory:ties": _ties,
    "theory:exact-gradient": _exact_gradient,
}


@styled
def draw(result: Result, *, width: float = WIDE) -> Figure:
    """The picture of a statement of :data:`rootpool.paper.theory.THEORY`."""
    if result.entry not in PLOTS:
        raise ValueError(f"no picture for {result.entry!r}; there is one for {', '.join(PLOTS)}")
    return PLOTS[result.entry](result, width)
