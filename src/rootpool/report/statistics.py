r"""Paired comparisons over seeds: how large a difference is, and how sure we can be of it.

Two runs with the same seed share data order and initial weights, so their difference varies less than
either value does. Over n seeds with differences :math:`d_i`, Student's t gives

.. math:: \bar d \pm t_{n-1}\, s_d / \sqrt n .
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist, fmean, stdev
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from .blocks import Cell, Table
from .runs import Right
from .text import Number, Text

__all__ = [
    "NORMAL",
    "AccuracyDifference",
    "Comparison",
    "PairedDifference",
    "compare",
    "comparison_table",
    "describe",
    "difference_by_seed",
    "holm",
    "paired_difference",
    "show_p",
]

ALPHA = 0.05  # intervals cover the mean with 95 % confidence
# Standard errors in half of a 95 % interval, where values are many: of a few seeds take Student's t.
NORMAL = NormalDist().inv_cdf(1 - ALPHA / 2)


@dataclass(frozen=True)
class PairedDifference:
    """Mean of ``a - b`` with its confidence interval and two-sided p-value.

    Interval and p-value are None where the differences have no spread: one pair, or all of them equal.
    """

    mean: float
    low: float | None
    high: float | None
    p_value: float | None
    n: int

    @property
    def clear(self) -> bool:
        """Whether the interval does not contain zero."""
        return self.p_value is not None and self.p_value < ALPHA

    @property
    def reach(self) -> float | None:
        """Half the width of the interval."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    @property
    def detectable(self) -> float | None:
        """The smallest difference that as many pairs tell from zero with a power of 80 %."""
        if self.reach is None:
            return None
        t = stats.t(self.n - 1)
        return self.reach * (1 + float(t.ppf(0.8) / t.ppf(1 - ALPHA / 2)))


def paired_difference(a: Iterable[float], b: Iterable[float]) -> PairedDifference:
    """Mean of ``a - b`` by Student's t for paired values, with its 95 % interval.

    Differences that are equal up to rounding count as equal. Student's t would call them certain, but they
    only mean that there are few seeds or coarse values (errors are whole numbers of images).

    >>> d = paired_difference([3.0, 2.0, 4.0], [1.0, 1.0, 1.0])
    >>> f"{d.mean:.1f}, {d.low:.2f} to {d.high:.2f}, p = {d.p_value:.3f}"
    '2.0, -0.48 to 4.48, p = 0.074'
    """
    a, b = list(a), list(b)
    if len(a) != len(b) or not a:
        raise ValueError(
            f"pairs need the same number of values on both sides, got {len(a)} and {len(b)}"
        )
    bad = [value for value in a + b if not math.isfinite(value)]
    if bad:
        raise ValueError(
            f"got {bad[0]} among the values; leave out the seeds that failed and report how many"
        )
    n = len(a)
    rounding = 8 * math.ulp(max(map(abs, a + b)))
    differences = [x - y for x, y in zip(a, b, strict=True)]
    mean = fmean(differences)
    mean = 0.0 if abs(mean) <= rounding else mean
    if n == 1 or stdev(differences) / math.sqrt(n) <= rounding:
        return PairedDifference(mean, None, None, None, n)
    test = stats.ttest_rel(a, b)
    low, high = map(float, test.confidence_interval(1 - ALPHA))
    return PairedDifference(mean, low, high, float(test.pvalue), n)


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values corrected for several comparisons, so that a false alarm among all of them stays rare.

    Holm's step-down method: the k-th smallest of m is multiplied by m - k + 1, and no corrected
    value is smaller than the one before it.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    if not all(0 <= p <= 1 for p in p_values):
        raise ValueError(f"p-values must be between 0 and 1, got {list(p_values)}")
    corrected = [0.0] * len(p_values)
    highest = 0.0
    for rank, i in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[i]))
        corrected[i] = highest
    return corrected


@dataclass(frozen=True)
class Comparison(PairedDifference):
    """A run minus a baseline, with the p-value corrected for all comparisons made together."""

    run: str
    baseline: str
    corrected_p: float | None
    comparisons: int

    @property
    def clear(self) -> bool:
        """Whether the difference is significant after the correction."""
        return self.corrected_p is not None and self.corrected_p < ALPHA

    def record(self) -> dict[str, Any]:
        """A row for ``plots.paired_differences``, a table or a file."""
        return {"label": f"{self.run} − {self.baseline}", **asdict(self), "clear": self.clear}


def compare(
    records: Iterable[Mapping[str, Any]],
    pairs: Sequence[tuple[str, str]],
    value: str = "val_error",
) -> list[Comparison]:
    """Paired differences ``run - baseline`` over the seeds that both have, with Holm's correction.

    Args:
        records: one mapping per run and seed, with ``run``, ``seed`` and the value.
        pairs: names of a run and of its baseline.
        value: which number to compare. Its intervals (95 %) are not corrected.

    Returns:
        One comparison for each pair, in the same order.
    """
    by_run: dict[str, dict[Any, float]] = defaultdict(dict)
    for record in records:
        run, seed = record["run"], record["seed"]
        if seed in by_run[run]:
            raise ValueError(
                f"two records of {run!r} with seed {seed}; give only the last epoch of each"
            )
        by_run[run][seed] = record[value]
    unknown = sorted({name for pair in pairs for name in pair} - set(by_run))
    if unknown:
        raise ValueError(f"no records of {', '.join(unknown)}; there are {', '.join(by_run)}")
    found = []
    for run, baseline in pairs:
        seeds = [seed for seed in by_run[run] if seed in by_run[baseline]]
        if not seeds:
            raise ValueError(f"{run!r} and {baseline!r} have no seed in common")
        a, b = ([by_run[name][seed] for seed in seeds] for name in (run, baseline))
        found.append(paired_difference(a, b))
    tested = [d.p_value for d in found if d.p_value is not None]
    corrected = iter(holm(tested))
    return [
        Comparison(
            **asdict(d),
            run=run,
            baseline=baseline,
            corrected_p=None if d.p_value is None else next(corrected),
            comparisons=len(tested),
        )
        for (run, baseline), d in zip(pairs, found, strict=True)
    ]


def describe(d: PairedDifference) -> str:
    """The result of a comparison in one sentence; lower is better.

    >>> describe(paired_difference([11.0, 12.1, 10.9], [13.0, 14.0, 13.1]))
    'better by 2.03 ± 0.38 points (95 % interval, 3 seeds, p = 0.0019)'
    >>> describe(paired_difference([11.0], [13.0]))
    'better by 2.00 points in the only seed; without any spread it cannot be told from noise'
    """
    side, size = _side(d), f"{abs(d.mean):.2f}"
    if d.reach is None:
        what = f"{side} by {size} points" if d.mean else side
        where = "the only seed" if d.n == 1 else f"each of {d.n} seeds"
        return f"{what} in {where}; without any spread it cannot be told from noise"
    noise = "" if d.clear else "within noise: "
    p, after = d.p_value, ""
    if isinstance(d, Comparison):
        p = d.corrected_p
        after = f" after Holm's correction for {d.comparisons} comparisons" * (d.comparisons > 1)
    basis = f"95 % interval, {d.n} seeds, p {show_p(p)}{after}"
    return f"{noise}{side} by {size} ± {d.reach:.2f} points ({basis})"


def show_p(p_value: float | None) -> str:
    """A p-value as it is quoted after "p".

    >>> show_p(0.0312), show_p(0.000049)
    ('= 0.031', '< 0.001')
    """
    if p_value is None:
        return "not known"
    return "< 0.001" if p_value < 0.001 else f"= {p_value:.2g}"


def _side(d: PairedDifference) -> str:
    if d.mean == 0:
        return "equal"
    return "better" if d.mean < 0 else "worse"


def _verdict(result: Comparison) -> str:
    if result.p_value is None:
        return "spread not known"
    return _side(result) if result.clear else "within noise"


def comparison_table(
    comparisons: Sequence[Comparison],
    caption: Text = "",
    over_images: Mapping[str, float] | None = None,
) -> Table:
    """One row per comparison: difference in points, interval, p-value and verdict.

    Args:
        comparisons: of runs with baselines; lower is better.
        caption: of the table.
        over_images: by run, half the width of the interval over other images; a column of its own.

    Returns:
        A block of a page.
    """
    tested = max((comparison.comparisons for comparison in comparisons), default=0)
    p = f"p, corrected for {tested}" if tested > 1 else "p"
    columns: dict[str, list[Cell]] = {
        "run": [c.run for c in comparisons],
        "against": [c.baseline for c in comparisons],
        "difference, points": [Number(c.mean, c.reach, "+.2f") for c in comparisons],
    }
    if over_images:
        known = [over_images.get(c.run) for c in comparisons]
        columns["over images"] = [None if r is None else f"± {r:.2f}" for r in known]
    columns[p] = [show_p(c.corrected_p).removeprefix("= ") for c in comparisons]
    columns["seeds"] = [c.n for c in comparisons]
    columns["verdict"] = [_verdict(c) for c in comparisons]
    return Table(list(columns), list(zip(*columns.values(), strict=True)), caption)


# --------------------------------------------------------------------------------------------------
# The same images


class AccuracyDifference(NamedTuple):
    """A difference of accuracies in points, with its standard errors over images and over seeds."""

    difference: float
    images_error: float
    seeds_error: float


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
