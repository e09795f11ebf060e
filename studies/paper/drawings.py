"""The picture that only the paper needs: printed and measured errors in one plot."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rootpool.report import Picture, Record
from rootpool.report.plots.drawing import WIDE, below, legend, logarithmic, styled
from rootpool.report.plots.palette import BAR, MUTED, PAPER

__all__ = ["errors_picture"]

SHADES = (BAR, "#e76c6a", "#76317c", "#6f9802")
LEAST = 1e-21  # the edge of the plot


def errors_picture(records: Sequence[Record]) -> Picture:
    """Approximation errors."""
    caption = "Error of the approximation of 1/(1 − x): lines measured, dots as printed."
    return Picture.of(_error_lines, records, alt=caption, caption=caption)


@styled
def _error_lines(records: Sequence[Record], *, width: float = WIDE) -> Figure:
    """Error by ratio of the eigenvalues: printed as dots, measured as lines, one colour per row."""
    figure = Figure(figsize=(width, 3.8), layout="constrained")
    axes = figure.add_subplot()
    columns = list(dict.fromkeys(r["column"] for r in records))
    handles: dict[str, Line2D] = {}
    for k, row in enumerate(dict.fromkeys(r["row"] for r in records)):
        own = [r for r in records if r["row"] == row]
        colour, places = SHADES[k % len(SHADES)], range(len(own))
        found = [max(r["error"], LEAST) for r in own]
        (line,) = axes.plot(places, found, "-", color=colour)
        printed = [float(r["printed"]) for r in own]
        axes.plot(places, printed, "o", color=colour, markerfacecolor=PAPER, markersize=6)
        handles[f"{f'degree {row}' if row.isdigit() else row}, here"] = line
    look = {"color": MUTED, "marker": "o", "linestyle": "", "markerfacecolor": PAPER}
    handles["the paper"] = Line2D([], [], **look)
    axes.set_xticks(range(len(columns)), columns)
    axes.set_ylim(1e-22, 1e5)
    logarithmic(axes, "y")
    axes.set_ylabel("error, logarithmic")
    below(figure, "ratio of the eigenvalues; no error at the lower edge")
    legend(figure, handles, width)
    return figure
