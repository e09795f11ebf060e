"""Photographs that were classified, to look at: confused pairs, and examples with their answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

__all__ = ["Photographs", "draw_examples", "draw_pairs"]

PAIRS, EXAMPLES = 6, 8
SIDE = 240  # pixels on a page


@dataclass(frozen=True)
class Photographs:
    """Images with what they are and what they were taken for.

    Args:
        load: reads the image with an index.
        labels: the class of each.
        predicted: what each was taken for.
        classes: names of the classes.
    """

    load: Callable[[int], Image.Image]
    labels: Sequence[int]
    predicted: Sequence[int]
    classes: Sequence[str]

    def picture(self, index: int) -> NDArray[Any]:
        """The photograph, small."""
        image = self.load(index)
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

    def sample(self) -> list[int]:
        """Images from all over the set, chosen without looking at the answers."""
        count = len(self.labels)
        chosen = np.random.default_rng(0).choice(count, min(EXAMPLES, count), replace=False)
        return sorted(chosen.tolist())


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


def draw_examples(
    photographs: Photographs,
    chosen: Sequence[int],
    answers: Sequence[Sequence[tuple[int, float]]],
    maps: Sequence[NDArray[Any]] | None = None,
) -> Figure:
    """Photographs with their most probable classes below, and maps.

    Args:
        photographs: where to find them.
        chosen: their indices.
        answers: for each, classes and probabilities, the most probable first.
        maps: for each, what every position adds to the first answer (red) or takes from it (blue).
    """
    width = 1 if maps is None else 2
    rows = -(-len(chosen) // (4 // width))
    figure = Figure(figsize=(10, 3.0 * rows), layout="constrained")
    places = figure.subplots(rows, 4, squeeze=False).reshape(-1, width)
    for place in places.flat:
        place.set_axis_off()
    names = photographs.classes
    for k, (index, (axes, *beside)) in enumerate(zip(chosen, places, strict=False)):
        true = photographs.labels[index]
        axes.imshow(photographs.picture(index))
        axes.set_title(names[true], fontsize=9, weight="bold")
        axes.set_axis_on()
        axes.set(xticks=[], yticks=[])
        lines = (f"{'▸ ' if c == true else ''}{names[c]} {p:.0%}" for c, p in answers[k])
        axes.set_xlabel("\n".join(lines), fontsize=7)
        if maps is not None:
            largest = float(np.abs(maps[k]).max()) or 1.0
            beside[0].imshow(maps[k], cmap="RdBu_r", vmin=-largest, vmax=largest)
    return figure
