"""Results of heads: as records, over seeds, as a table, and which classes they confuse."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np
from rich.table import Table as RichTable

from rootpool.report import Cell, Number, Table
from rootpool.report.accuracy import AccuracyDifference, accuracy_difference
from rootpool.report.records import Record

from .head import Branch, Head
from .study import HeadResult

__all__ = [
    "Confusion",
    "Summary",
    "confusions",
    "for_terminal",
    "records",
    "results_table",
    "summary",
]


def records(results: Iterable[HeadResult]) -> list[Record]:
    """One record per head and seed."""
    return [
        {
            "run": result.head,
            "seed": result.seed,
            "accuracy": result.accuracy,
            "accuracy5": result.accuracy5,
            "loss": None if result.diverged else result.loss,
            "seconds": result.seconds,
            **result.learned,
        }
        for result in results
    ]


@dataclass(frozen=True)
class Summary:
    """The results of one head over its seeds.

    Args:
        head: its name.
        accuracies: in per cent, one per seed.
        accuracy5: per cent of the images whose label is among the five most probable, mean over seeds.
        seconds: CPU time, mean over seeds.
        difference: to the first head, on the same seeds and images; None for the first.
        diverged: with how many seeds its numbers stopped being finite; these guess.
    """

    head: str
    accuracies: tuple[float, ...]
    accuracy5: float
    seconds: float
    difference: AccuracyDifference | None
    diverged: int = 0

    @property
    def mean(self) -> float:
        """Mean accuracy."""
        return fmean(self.accuracies)

    @property
    def spread(self) -> float | None:
        """Standard deviation over seeds; None for one seed."""
        return stdev(self.accuracies) if len(self.accuracies) > 1 else None


def summary(results: Sequence[HeadResult]) -> list[Summary]:
    """One row per head, compared with the first head over the seeds that both have."""
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
                sum(r.diverged for r in group),
            )
        )
    return rows


def results_table(
    heads: Mapping[str, Head],
    results: Sequence[HeadResult],
    caption: str = "",
    *,
    interval: bool = False,
) -> Table:
    """The summary as a table: for a page, or by :func:`for_terminal` for a terminal.

    With ``interval`` differences have half of their 95 % interval, else their standard error.
    """
    factor = 1.96 if interval else 1.0
    first = next(iter(heads))
    rows: list[list[Cell]] = []
    for row in summary(results):
        d = row.difference
        rows.append(
            [
                f"{row.head} (diverged {row.diverged} ×)" if row.diverged else row.head,
                Number(row.mean, row.spread),
                Number(row.accuracy5),
                None if d is None else Number(d.difference, factor * d.error, "+.2f"),
                Number(row.seconds, form=".0f"),
                " + ".join(_describe(branch) for branch in heads[row.head].branches),
            ]
        )
    return Table(
        ["head", "top-1, %", "top-5, %", f"against {first}", "CPU s per seed", "branches"],
        rows,
        best={"top-1, %": "highest", "top-5, %": "highest"},
        caption=caption,
    )


def _describe(branch: Branch) -> str:
    options = ", ".join(f"{name}={value:g}" for name, value in branch.options)
    parts = [branch.stage, f"{branch.method}({options})" if options else branch.method]
    if branch.reduction is not None:
        parts.insert(1, f"1x1 to {branch.reduction}")
    if branch.power != 1:
        parts.append(f"power {branch.power:g}")
    parts += [] if branch.drop is None else [f"{branch.drop} dropout of channels"]
    return ", ".join([*parts, f"length {branch.length:g}"])


def for_terminal(table: Table) -> RichTable:
    """The same table for a terminal."""
    shown = RichTable(title=str(table.caption))
    for k, header in enumerate(table.headers):
        number = any(isinstance(row[k], Number) for row in table.rows)
        shown.add_column(str(header), justify="right" if number else "left")
    for row in table.rows:
        cells = (cell.text if isinstance(cell, Number) else str(cell or "") for cell in row)
        shown.add_row(*cells)
    return shown


@dataclass(frozen=True)
class Confusion:
    """How many images of one class are taken for another, mean over seeds."""

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
