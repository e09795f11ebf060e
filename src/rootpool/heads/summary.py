"""Results of heads: as records, over seeds, as a table on the terminal, and what they confuse."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from rootpool.analysis.accuracy import AccuracyDifference, accuracy_difference
from rootpool.analysis.records import Record

from .study import HeadResult

__all__ = ["Confusion", "Summary", "confusions", "correct", "records", "summary", "terminal_table"]


def records(results: Iterable[HeadResult]) -> list[Record]:
    """One record a head and seed."""
    return [
        {
            "run": result.head,
            "seed": result.seed,
            "accuracy": result.accuracy,
            "accuracy5": result.accuracy5,
            "loss": result.loss,
            "seconds": result.seconds,
        }
        for result in results
    ]


def correct(results: Sequence[HeadResult], head: str) -> NDArray[np.bool_]:
    """Which images a head gets right with each seed, ``(seeds, images)``."""
    return np.stack([result.correct for result in results if result.head == head])


@dataclass(frozen=True)
class Summary:
    """A head over its seeds.

    Args:
        head: its name.
        accuracies: in per cent, one a seed.
        accuracy5: mean share of images whose label is among the five most probable.
        seconds: of one core, mean.
        difference: to the first head, on the same seeds and images; None for the first.
    """

    head: str
    accuracies: tuple[float, ...]
    accuracy5: float
    seconds: float
    difference: AccuracyDifference | None

    @property
    def mean(self) -> float:
        """Mean accuracy."""
        return fmean(self.accuracies)

    @property
    def spread(self) -> float | None:
        """Standard deviation over seeds; None for one seed."""
        return stdev(self.accuracies) if len(self.accuracies) > 1 else None


def summary(results: Sequence[HeadResult]) -> list[Summary]:
    """One row a head, compared with the first over the seeds that both have."""
    groups: dict[str, list[HeadResult]] = {}
    for result in results:
        groups.setdefault(result.head, []).append(result)
    first = next(iter(groups), "")
    baseline = {result.seed: result for result in groups.get(first, [])}
    rows = []
    for head, group in groups.items():
        common = [r for r in group if r.seed in baseline]
        difference = None
        if head != first and common:
            difference = accuracy_difference(
                np.stack([r.correct for r in common]),
                np.stack([baseline[r.seed].correct for r in common]),
            )
        rows.append(
            Summary(
                head,
                tuple(r.accuracy for r in group),
                fmean(r.accuracy5 for r in group),
                fmean(r.seconds for r in group),
                difference,
            )
        )
    return rows


def terminal_table(title: str, results: Sequence[HeadResult]) -> Table:
    """The summary for a terminal."""
    table = Table(title=title)
    table.add_column("head")
    for heading in ("seeds", "top-1", "top-5", "against the first", "core seconds a seed"):
        table.add_column(heading, justify="right")
    for row in summary(results):
        spread = "" if row.spread is None else f" ± {row.spread:.2f}"
        difference = row.difference
        table.add_row(
            row.head,
            str(len(row.accuracies)),
            f"{row.mean:.2f}{spread}",
            f"{row.accuracy5:.2f}",
            "" if difference is None else f"{difference.difference:+.2f} ± {difference.error:.2f}",
            f"{row.seconds:.0f}",
        )
    return table


@dataclass(frozen=True)
class Confusion:
    """Images of one class taken for another, mean over seeds."""

    true: str
    predicted: str
    count: float
    total: int


def confusions(results: Sequence[HeadResult], classes: Sequence[str]) -> list[Confusion]:
    """All pairs of classes that are confused, most often first."""
    counts = np.zeros((len(classes), len(classes)))
    for result in results:
        np.add.at(counts, (result.labels, result.classes[:, 0]), 1 / len(results))
    totals = np.bincount(results[0].labels, minlength=len(classes))
    np.fill_diagonal(counts, 0)
    found = [
        Confusion(classes[i], classes[j], float(counts[i, j]), int(totals[i]))
        for i, j in zip(*counts.nonzero(), strict=True)
    ]
    return sorted(found, key=lambda confusion: -confusion.count)
