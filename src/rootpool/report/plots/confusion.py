"""Which classes are taken for which."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from .drawing import WIDE, fit, styled

__all__ = ["confusion_matrix"]

NAMED = 40  # classes whose names fit beside the picture
COUNTED = 16  # classes whose counts fit into it


@styled
def confusion_matrix(counts: Sequence[Sequence[int]], classes: Sequence[str]) -> Figure:
    """Shares of the images of each class (rows) that were taken for each class (columns).

    Args:
        counts: images by true class and predicted class.
        classes: names, in the same order.

    Returns:
        The figure, one row per class.
    """
    table = np.asarray(counts, dtype=float)
    shares = table / np.maximum(table.sum(1, keepdims=True), 1)
    figure = Figure(figsize=(WIDE, 0.9 * WIDE), layout="constrained")
    axes = figure.add_subplot()
    axes.grid(visible=False)
    picture = axes.imshow(100 * shares, cmap="Blues", vmin=0, vmax=100)
    figure.colorbar(picture, ax=axes, shrink=0.7, label="% of the images of the class")
    axes.set_xlabel("predicted class")
    axes.set_ylabel("true class")
    if len(classes) <= NAMED:
        short = [fit(name, 1.9) for name in classes]
        axes.set_xticks(range(len(classes)), short, rotation=90)
        axes.set_yticks(range(len(classes)), short)
    if len(classes) <= COUNTED:
        for (row, column), count in np.ndenumerate(table):
            if count:
                colour = "white" if shares[row, column] > 0.5 else "black"
                axes.text(column, row, f"{count:.0f}", ha="center", va="center", color=colour)
    return figure
