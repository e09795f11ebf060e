"""The pictures of the entries, drawn from their results."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rootpool.report import Picture
from rootpool.report.plots import (
    dots_with_spread,
    learning_curves,
    paired_differences,
    speed_bars,
)
from rootpool.report.plots.drawing import WIDE, below, fit, legend, logarithmic, styled
from rootpool.report.plots.palette import BAR, GRID, MUTED, PAPER
from rootpool.report.records import Record

from .plan import Plan
from .result import Result

__all__ = [
    "Draw",
    "chain",
    "comparisons",
    "curves",
    "endings",
    "errors",
    "precisions",
    "seconds",
    "two_dots",
]

Draw = Callable[[Result, Plan], list[Picture]]


def chain(*draws: Draw) -> Draw:
    """Several pictures, one after the other."""
    return lambda result, plan: [p for draw in draws for p in draw(result, plan)]


def curves(value: str, caption: str, *, last_stage: bool = False) -> Draw:
    """Errors over the epochs, with a panel for each method."""

    def draw(result: Result, plan: Plan) -> list[Picture]:
        return [
            Picture.of(
                learning_curves,
                # Not every epoch has to be validated.
                [record for record in result.series["curves"] if value in record],
                value=value,
                panels=True,
                switch_epoch=plan.switch if last_stage else None,
                decay_epochs=[
                    e for e in plan.milestones if not last_stage or e >= (plan.switch or 0)
                ],
                alt=caption,
                caption=caption,
            )
        ]

    return draw


def endings(caption: str, value: str = "val_error") -> Draw:
    """The final error of each run and seed."""

    def draw(result: Result, plan: Plan) -> list[Picture]:
        runs = result.series["runs"]
        return [Picture.of(dots_with_spread, runs, value=value, alt=caption, caption=caption)]

    return draw


def comparisons(result: Result, plan: Plan) -> list[Picture]:
    """Differences with their intervals, a picture for each question."""
    found: dict[str, list[Record]] = {}
    for record in result.series["comparisons"]:
        found.setdefault(str(record["question"]), []).append(record)
    label = "difference in error, points (left of zero: the first is better)"
    return [
        Picture.of(
            paired_differences,
            records,
            label=label,
            alt=f"Differences with 95 % intervals: {question}",
            caption="Differences over seeds, with 95 % intervals that are not corrected for their "
            f"number; filled: zero is outside. {question}",
        )
        for question, records in found.items()
        if any(r["low"] is not None for r in records)
    ]


def precisions(result: Result, plan: Plan) -> list[Picture]:
    """Training errors in single and in double precision."""
    caption = "Training error; dashed: the root in float32."
    rows = result.series["curves"]
    return [Picture.of(learning_curves, rows, "train_error", alt=caption, caption=caption)]


def spectrum(value: str, caption: str) -> Draw:
    """A property of the covariances over the steps."""

    def draw(result: Result, plan: Plan) -> list[Picture]:
        records = result.series["spectrum"]
        return [Picture.of(learning_curves, records, value, x="step", alt=caption, caption=caption)]

    return draw


def smoothness(result: Result, plan: Plan) -> list[Picture]:
    """Effective smoothness by method, a picture for each moment."""
    moments = dict.fromkeys(str(r["moment"]) for r in result.series["smoothness"])
    pictures = []
    for moment in moments:
        rows = [r for r in result.series["smoothness"] if r["moment"] == moment]
        caption = f"Effective β-smoothness of the loss, network {moment}; small is smooth."
        pictures.append(
            Picture.of(
                dots_with_spread,
                rows,
                value="beta",
                label="effective β-smoothness",
                alt=caption,
                caption=caption,
            )
        )
    return pictures


def seconds(result: Result, plan: Plan) -> list[Picture]:
    """Total time of a batch by method."""
    rows = [
        {"label": r["row"], "method": r["method"], "seconds": r["measured"]}
        for r in result.records
        if r["column"] == "Total (s)"
    ]
    caption = "Seconds for a batch, forward and backward, measured here."
    return [Picture.of(speed_bars, rows, value="seconds", unit="s", alt=caption, caption=caption)]


# --------------------------------------------------------------------------------------------------
# Published and measured in one plot


@styled
def error_lines(records: Sequence[Record], *, width: float = WIDE) -> Figure:
    """Error by ratio of the eigenvalues: printed as dots, measured as lines, one colour per row."""
    figure = Figure(figsize=(width, 3.8), layout="constrained")
    axes = figure.add_subplot()
    rows = list(dict.fromkeys(str(r["row"]) for r in records))
    columns = list(dict.fromkeys(str(r["column"]) for r in records))
    handles: dict[str, Line2D] = {}
    for k, row in enumerate(rows):
        own = [r for r in records if r["row"] == row]
        colour = SHADES[k % len(SHADES)]
        shown = [_drawable(r) for r in own]
        (line,) = axes.plot(range(len(own)), shown, "-", color=colour)
        axes.plot(
            range(len(own)),
            [float(r["published"] or 0) for r in own],
            "o",
            color=colour,
            markerfacecolor=PAPER,
            markersize=6,
        )
        name = row if not row.isdigit() else f"degree {row}"
        handles[f"{name}, here"] = line
    handles["the paper"] = Line2D(
        [], [], color=MUTED, marker="o", linestyle="", markerfacecolor=PAPER
    )
    axes.set_xticks(range(len(columns)), columns)
    axes.set_ylim(1e-22, 1e5)
    logarithmic(axes, "y")
    axes.set_ylabel("error, logarithmic")
    below(
        figure,
        "ratio of the eigenvalues; where exact arithmetic leaves no error, that of float64; "
        "below 10⁻²¹ at the edge",
    )
    legend(figure, handles, width)
    return figure


SHADES = (BAR, "#e76c6a", "#76317c", "#6f9802")


def _drawable(record: Record) -> float:
    """The error in exact arithmetic, or that of float64 where it is zero; at least 1e-21."""
    found = float(record["measured"] or 0) or float(record["measured_float64"] or 0)
    return max(found, 1e-21)


def errors(result: Result, plan: Plan) -> list[Picture]:
    """Approximation errors."""
    caption = "Error of the approximation of 1/(1 − x): lines measured, dots as printed."
    return [Picture.of(error_lines, result.records, alt=caption, caption=caption)]


@styled
def two_dots_plot(records: Sequence[Record], label: str, *, width: float = WIDE) -> Figure:
    """Printed (hollow) and measured (filled) on a logarithmic axis, one line per name."""
    rows = list(dict.fromkeys(str(r["row"]) for r in records))
    figure = Figure(figsize=(width, 0.7 + 0.3 * len(rows)), layout="constrained")
    axes = figure.add_subplot()
    for key, face in (("published", PAPER), ("measured", BAR)):
        points = [(r[key], rows.index(str(r["row"]))) for r in records if _finite(r.get(key))]
        axes.plot(*zip(*points, strict=True), "o", color=BAR, markerfacecolor=face, markersize=7)
    axes.set_yticks(range(len(rows)), [fit(row, 1.9, lines=3) for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(False, axis="y")
    axes.spines["left"].set_color(GRID)
    logarithmic(axes, "x")
    handles = {
        "the paper": Line2D([], [], color=BAR, marker="o", linestyle="", markerfacecolor=PAPER),
        "here": Line2D([], [], color=BAR, marker="o", linestyle=""),
    }
    legend(figure, handles, width)
    below(figure, label)
    return figure


def _finite(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value > 0


def two_dots(label: str, caption: str) -> Draw:
    """Printed and measured numbers of several decades."""

    def draw(result: Result, plan: Plan) -> list[Picture]:
        return [Picture.of(two_dots_plot, result.records, label, alt=caption, caption=caption)]

    return draw
