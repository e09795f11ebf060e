"""Photographs that were classified, to look at: those that are confused, beside what they are taken for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from .data import decode_image

__all__ = ["Photographs", "draw_pairs"]

PAIRS = 6
SIDE = 240  # pixels on a page


@dataclass(frozen=True)
class Photographs:
    """Image files with what they are and what they were taken for.

    Args:
        paths: of the files.
        labels: the class of each.
        predicted: what each was taken for.
        classes: names of the classes.
    """

    paths: Sequence[str]
    labels: Sequence[int]
    predicted: Sequence[int]
    classes: Sequence[str]

    def picture(self, index: int) -> np.ndarray[Any, Any]:
        """The photograph, small."""
        image = decode_image(self.paths[index])
        image.thumbnail((SIDE, SIDE))
        return np.asarray(image.convert("RGB"))

    def first(self, true: int, predicted: int) -> int | None:
        """An image of a class that was taken for another, or for itself."""
        found = zip(self.labels, self.predicted, strict=True)
        return next((k for k, pair in enumerate(found) if pair == (true, predicted)), None)

    def confused(self, count: int = PAIRS) -> list[tuple[int, int, int]]:
        """Pairs of classes that are confused most often: the class, what it is taken for, how often."""
        found = Counter(
            (true, other)
            for true, other in zip(self.labels, self.predicted, strict=True)
            if true != other
        )
        return [(*pair, times) for pair, times in found.most_common(count)]


def draw_pairs(photographs: Photographs) -> Figure:
    """A row for each pair of classes: one that was mistaken, and one of what it was taken for."""
    pairs = photographs.confused()
    figure = Figure(figsize=(7, 2.6 * len(pairs)), layout="constrained")
    names = photographs.classes
    for axes, (true, other, times) in zip(
        figure.subplots(len(pairs), 2, squeeze=False), pairs, strict=True
    ):
        chosen = photographs.first(true, other), photographs.first(other, other)
        titles = f"{names[true]}, taken for ({times} ×)", names[other]
        for place, index, title in zip(axes, chosen, titles, strict=True):
            place.set_axis_off()
            place.set_title(title, fontsize=9)
            if index is not None:
                place.imshow(photographs.picture(index))
    return figure
