"""Which classes are taken for which: as a matrix, and as photographs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from .drawing import WIDE, fit, styled

__all__ = ["confused_pairs", "confusion_matrix"]

NAMED = 40  # classes whose names fit beside the picture
COUNTED = 16  # classes whose counts fit into it
PAIRS = 6
SIDE = 240  # pixels of a photograph


@styled
def confusion_matrix(counts: Sequence[Sequence[int]], classes: Sequence[str]) -> Figure:
    """Shares of the images of each class (rows) that were taken for each class (columns).

    Args:
        counts: images by true class and predicted class.
        classes: names, in the same order.
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


@styled
def confused_pairs(
    load: Callable[[int], Image.Image],
    labels: Sequence[int],
    predicted: Sequence[int],
    classes: Sequence[str],
) -> Figure:
    """The most frequent mistakes: a photograph that was mistaken, beside one that was recognised.

    Args:
        load: reads the image with an index.
        labels: the class of each.
        predicted: what each was taken for; at least one is wrong.
        classes: names of the classes.
    """
    answers = list(zip(labels, predicted, strict=True))
    mistakes = Counter(pair for pair in answers if pair[0] != pair[1]).most_common(PAIRS)
    figure = Figure(figsize=(7, 2.6 * len(mistakes)), layout="constrained")
    grid = figure.subplots(len(mistakes), 2, squeeze=False)
    for row, ((true, other), times) in zip(grid, mistakes, strict=True):
        titles = f"{classes[true]}, taken for ({times} ×)", classes[other]
        for axes, pair, title in zip(row, ((true, other), (other, other)), titles, strict=True):
            axes.set_axis_off()
            axes.set_title(title)
            if pair in answers:
                image = load(answers.index(pair)).convert("RGB")
                image.thumbnail((SIDE, SIDE))
                axes.imshow(np.asarray(image))
    return figure
