"""The difference in accuracy of two classifiers on the same images, with its standard error."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["AccuracyDifference", "accuracy_difference"]


@dataclass(frozen=True)
class AccuracyDifference:
    """A difference of accuracies in points, with its standard errors over images and over seeds."""

    difference: float
    images_error: float
    seeds_error: float

    @property
    def error(self) -> float:
        """Standard error of the difference over other images and other seeds."""
        return math.hypot(self.images_error, self.seeds_error)


def accuracy_difference(ours: NDArray[np.bool_], theirs: NDArray[np.bool_]) -> AccuracyDifference:
    r"""Compare two classifiers by the images that they classify correctly, for the same seeds.

    With :math:`d_{si} \in \{-1, 0, 1\}` for seed s and image i the difference is their mean. The
    two errors are those of the mean over images of :math:`\bar d_{\cdot i}` and of the mean over
    seeds of :math:`\bar d_{s \cdot}`. With one seed the second error is not known and counts as 0.

    Args:
        ours: ``(seeds, images)``.
        theirs: the same shape, in the same order.

    >>> accuracy_difference(
    ...     np.array([[1, 1, 1, 0]], bool), np.array([[1, 0, 1, 0]], bool)
    ... ).difference
    25.0
    """
    if ours.shape != theirs.shape or ours.ndim != 2 or ours.size == 0:
        raise ValueError(
            "expected two arrays (seeds, images) of the same shape, got "
            f"{ours.shape} and {theirs.shape}"
        )
    d = 100 * (ours.astype(float) - theirs)
    return AccuracyDifference(float(d.mean()), _error(d.mean(0)), _error(d.mean(1)))


def _error(values: NDArray[np.float64]) -> float:
    """Standard error of the mean; 0 for one value."""
    return 0.0 if len(values) == 1 else float(values.std(ddof=1) / math.sqrt(len(values)))
