"""Pictures of the statements, for a reader who does not have the paper at hand."""

from __future__ import annotations

import math
from collections.abc import Callable

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rootpool.analysis import Record

from ..result import Result
from .common import numbers

__all__ = ["PLOTS", "draw"]

OURS, THEIRS, OTHER = "tab:blue", "tab:orange", "tab:gray"
FLOAT64 = 2.0**-52


def _figure(title: str, columns: int = 1, width: float = 7.0) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(width, 3.8), layout="constrained")
    figure.suptitle(title, fontsize=11)
    axes = figure.subplots(1, columns, sharey=True, squeeze=False)[0].tolist()
    for axis in axes:
        axis.grid(True, alpha=0.25)
    return figure, axes


def _pade_rank(result: Result) -> Figure:
    figure, (axis,) = _figure(
        "The equations for the Padé coefficients of 1/(1 − x) say one thing only"
    )
    degrees = numbers(result.records, "degree")
    axis.loglog(
        degrees,
        numbers(result.records, "unknowns"),
        "o-",
        color=OTHER,
        label="unknown coefficients",
    )
    axis.loglog(
        degrees, numbers(result.records, "rank"), "o-", color=OURS, label="independent equations"
    )
    axis.set(xlabel="degree of the approximant", ylabel="number")
    axis.legend()
    return figure


def _pade_coefficients(result: Result) -> Figure:
    figure, (axis,) = _figure(
        "Padé coefficients of 1/(1 − x), degree 100: what comes out is arbitrary"
    )
    digits = [str(r["digits"]) for r in result.records]
    for key, marker in (("p_1", "o"), ("p_2", "s"), ("q_1", "^")):
        axis.plot(digits, numbers(result.records, key), marker, label=f"coefficient ${key}$")
    axis.set(xlabel="decimal digits of the linear solve", ylabel="value that comes out")
    axis.legend()
    return figure


def _power_iteration_rate(result: Result) -> Figure:
    figure, (axis,) = _figure(
        "Power iteration converges at the rate λ₂/λ₁, and not at all when they are equal"
    )
    for k, ratio in enumerate(dict.fromkeys(r["ratio"] for r in result.records)):
        error = numbers(result.records, "error", ratio=ratio)
        axis.semilogy(error, color=f"C{k}", label=f"$\\lambda_2/\\lambda_1$ = {ratio:g}")
        axis.semilogy(numbers(result.records, "predicted", ratio=ratio), ":", color=f"C{k}")
    axis.plot([], [], "k:", label=r"$(\lambda_2/\lambda_1)^k$")
    axis.set(xlabel="iteration k", ylabel="distance to the leading eigenvector", ylim=(1e-16, 5))
    axis.legend()
    return figure


def _power_iteration_is_taylor(result: Result) -> Figure:
    figure, (axis,) = _figure("Gradient of power iteration minus Taylor series of the kernel")
    for which in dict.fromkeys(r["eigenvector"] for r in result.records):
        steps = numbers(result.records, "iterations", eigenvector=which)
        differences = numbers(result.records, "difference", eigenvector=which)
        axis.loglog(steps, differences, "o-", label=f"eigenvector {which}")
    axis.axhline(FLOAT64, color="k", linestyle=":", label="one rounding in float64")
    axis.set(
        xlabel="iterations = terms of the series", ylabel="relative difference", ylim=(1e-17, 1)
    )
    axis.legend()
    return figure


def _ties(result: Result) -> Figure:
    kinds = list(dict.fromkeys(str(r["spectrum"]) for r in result.records))
    methods = list(dict.fromkeys(str(r["method"]) for r in result.records))[::-1]
    figure, axes = _figure(
        "Error of the gradient of a covariance root, by the eigenvalues it meets", len(kinds), 12
    )
    for axis, kind in zip(axes, kinds, strict=True):
        rows = [r for r in result.records if r["spectrum"] == kind]
        axis.set(xscale="log", xlim=(1e-17, 1e6), xlabel="relative error")
        axis.set_title(kind, fontsize=10)
        for key, color, label, shift in (
            ("reference_error", THEIRS, "the paper's equations", 0.15),
            ("our_error", OURS, "rootpool", -0.15),
        ):
            _dots(
                axis,
                [(methods.index(str(r["method"])) + shift, r[key]) for r in rows if key in r],
                color,
                label,
            )
    axes[0].set_yticks(range(len(methods)), methods)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _dots(axis: Axes, points: list[tuple[float, Record | object]], color: str, label: str) -> None:
    """Dots, and for what is no number a cross at the edge that says so."""
    finite = [(y, float(x)) for y, x in points if isinstance(x, float) and math.isfinite(x)]
    axis.plot(
        [max(x, 1e-16) for _, x in finite], [y for y, _ in finite], "o", color=color, label=label
    )
    for y, x in points:
        if isinstance(x, float) and not math.isfinite(x):
            axis.plot(1e2, y, "x", color=color)
            axis.annotate(
                "none", (1e2, y), (6, 0), textcoords="offset points", va="center", color=color
            )


def _exact_gradient(result: Result) -> Figure:
    figure, (axis,) = _figure("Error of the gradient of a matrix root as two eigenvalues meet")
    for way, color in (("torch.linalg.eigh", THEIRS), ("rootpool.linalg.sqrtm", OURS)):
        for dtype, style in (("float64", "o-"), ("float32", "s--")):
            gaps = [g for g in numbers(result.records, "gap", way=way, dtype=dtype) if g]
            errors = numbers(result.records, "error", way=way, dtype=dtype)
            axis.loglog(gaps, errors[: len(gaps)], style, color=color, label=f"{way}, {dtype}")
            if math.isfinite(errors[-1]):
                axis.plot(1e-16, max(errors[-1], 1e-17), style[0], color=color)
            else:
                axis.plot(1e-16, 2.0, "x", color=color)
    axis.annotate(
        "no gradient", (1e-16, 2.0), (8, 0), textcoords="offset points", va="center", color=THEIRS
    )
    axis.set(xlabel="gap between the two eigenvalues", ylabel="relative error", ylim=(1e-17, 10))
    axis.set_xticks(
        [1e-16, 1e-12, 1e-8, 1e-4, 1], ["tie", "$10^{-12}$", "$10^{-8}$", "$10^{-4}$", "1"]
    )
    figure.legend(loc="outside lower center", ncols=2)
    return figure


PLOTS: dict[str, Callable[[Result], Figure]] = {
    "theory:pade-rank": _pade_rank,
    "theory:pade-coefficients": _pade_coefficients,
    "theory:power-iteration-rate": _power_iteration_rate,
    "theory:power-iteration-is-taylor": _power_iteration_is_taylor,
    "theory:ties": _ties,
    "theory:exact-gradient": _exact_gradient,
}


def draw(result: Result) -> Figure:
    """The picture of a statement of :data:`rootpool.paper.theory.THEORY`."""
    if result.entry not in PLOTS:
        raise ValueError(f"no picture for {result.entry!r}; there is one for {', '.join(PLOTS)}")
    return PLOTS[result.entry](result)
