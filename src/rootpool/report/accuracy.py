"""The difference in accuracy of two classifiers on the same images, with its standard error."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

__all__ = ["NORMAL", "AccuracyDifference", "difference_by_seed"]

Right = NDArray[np.bool_]  # for each image, whether it was recognised
# Standard errors in half of a 95 % interval, where values are many: of a few seeds take Student's t.
NORMAL = NormalDist().inv_cdf(0.975)


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

    @property
    def images_reach(self) -> float:
        """Half the width of the 95 % interval of the difference over other images."""
        return NORMAL * self.images_error


def difference_by_seed(
    ours: Mapping[int, Right], theirs: Mapping[int, Right]
) -> AccuracyDifference | None:
    r"""Compare two classifiers by the images that they recognise, over the seeds that both have.

    With :math:`d_{si} \in \{-1, 0, 1\}` for seed s and image i the difference is their mean. The
    two errors belong to the mean over images of :math:`\bar d_{\cdot i}` and of the mean over
    seeds of :math:`\bar d_{s \cdot}`. With one seed the second error is not known and counts as 0.
    None without a common seed, or for other images.

    >>> ours, theirs = np.array([True, True, True, False]), np.array([True, False, True, False])
    >>> difference_by_seed({0: ours}, {0: theirs}).difference
    25.0
    """
    seeds = sorted(ours.keys() & theirs.keys())
    if not seeds or len({len(side[seed]) for side in (ours, theirs) for seed in seeds}) > 1:
        return None
    first, second = (np.stack([side[seed] for seed in seeds]) for side in (ours, theirs))
    d = 100 * (first.astype(float) - second)
    return AccuracyDifference(float(d.mean()), _error(d.mean(0)), _error(d.mean(1)))


def _error(values: NDArray[np.float64]) -> float:
    """Standard error of the mean; 0 for one value."""
    return 0.0 if len(values) == 1 else float(values.std(ddof=1) / math.sqrt(len(values)))
