"""What the pictures of the statements share."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rootpool.report.plots.palette import STYLES

__all__ = ["LOOKS", "OURS", "THEIRS", "one_plot"]

OURS, THEIRS = STYLES["exact"].colour, STYLES["svd-pade"].colour
LOOKS = list(STYLES.values())


def one_plot(width: float, height: float = 3.4) -> tuple[Figure, Axes]:
    """A figure with one plot, in inches."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()
