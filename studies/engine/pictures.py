"""Pictures and tables of the runs of a place, as an entry asks for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, stdev

from rootpool.report import Cell, Number, Picture, Table
from rootpool.report.plots import (
    dots_with_spread,
    learning_curves,
    paired_differences,
)

from .questions import Answer
from .training import Place, Row

__all__ = ["draw", "mean_of", "results_table"]

INTERVALS = (
    "Differences over seeds with 95 % intervals, which are not corrected for the number of comparisons; "
    "filled: significant after Holm's correction. All pictures of an entry have the same axis."
)
Asked = Mapping[str, str]  # draw, value, caption; further keys are tags of the runs


def draw(asked: Sequence[Asked], place: Place, answers: Sequence[Answer]) -> list[Picture]:
    """The pictures that an entry asks for."""
    return [picture for one in asked for picture in DRAWINGS[one["draw"]](one, place, answers)]


def _chosen(asked: Asked) -> dict[str, str]:
    return {k: v for k, v in asked.items() if k not in ("draw", "value", "caption", "from")}


def _curves(asked: Asked, place: Place, answers: Sequence[Answer]) -> list[Picture]:
    """A number over the epochs, with a panel for each method; ``from: switch`` shows the last stage."""
    assert place.network is not None
    switch = (place.network.switch or 0) if asked.get("from") == "switch" else None
    records = [
        row
        for row in place.records(**_chosen(asked))
        if asked["value"] in row and (switch is None or row["epoch"] >= switch - 1)
    ]
    decays = [e for e in place.network.milestones if switch is None or e >= switch]
    made = Picture.of(
        learning_curves,
        records,
        value=asked["value"],
        panels=True,
        switch_epoch=switch,
        decay_epochs=decays,
        alt=asked["caption"],
        caption=asked["caption"],
    )
    return [made] if records else []


def _endings(asked: Asked, place: Place, answers: Sequence[Answer]) -> list[Picture]:
    """The final value of each run and seed that converged."""
    value, caption = asked.get("value", "val_error"), asked["caption"]
    wanted = _chosen(asked).items()
    rows = [row for row in place.rows if not row["failed"] and wanted <= row.items()]
    failed = sum(row["failed"] for row in place.rows)
    if failed:
        caption += f" Without {failed} runs that failed."
    options = {"label": "accuracy, %"} if value == "accuracy" else {}
    return [
        Picture.of(dots_with_spread, rows, value=value, alt=caption, caption=caption, **options)
    ]


def _spectrum(asked: Asked, place: Place, answers: Sequence[Answer]) -> list[Picture]:
    """A property of the covariances over the steps."""
    records, caption = place.records("spectrum", **_chosen(asked)), asked["caption"]
    value = asked["value"]
    drawn = Picture.of(learning_curves, records, value, x="step", alt=caption, caption=caption)
    return [drawn] if records else []


def _comparisons(asked: Asked, place: Place, answers: Sequence[Answer]) -> list[Picture]:
    """Differences with their intervals, a picture for each part."""
    tags = {row["run"]: row for row in place.rows}
    label = "difference in error, points (left of zero: the first is better)"
    known = [c for a in answers for c in a.comparisons if c.low is not None]
    reach = max((abs(end) for d in known for end in (d.low, d.high)), default=0)
    found = []
    for answer in answers:
        records = [
            {**c.record(), **{tag: tags[c.run].get(tag, c.run) for tag in ("method", "protocol")}}
            for c in answer.comparisons
            if c.low is not None
        ]
        if len(records) > 1:
            text = answer.part.text
            alt = f"Differences with 95 % intervals, claim tested: {text}"
            caption = f"Claim tested: {text} {INTERVALS}"
            options = {"label": label, "reach": reach}
            found.append(
                Picture.of(paired_differences, records, alt=alt, caption=caption, **options)
            )
    return found


DRAWINGS: dict[str, Callable[[Asked, Place, Sequence[Answer]], list[Picture]]] = {
    "curves": _curves,
    "endings": _endings,
    "spectrum": _spectrum,
    "comparisons": _comparisons,
}


def mean_of(values: Sequence[float | None], form: str = ".2f") -> Number | None:
    """The mean of what is known with its standard deviation, as a cell."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return Number(fmean(known), stdev(known) if len(known) > 1 else None, form)


def results_table(
    place: Place, columns: Mapping[str, str], caption: str, rows: Sequence[Row] | None = None
) -> Table:
    """One row per run: the mean of each value over the seeds that converged, and how many failed.

    Args:
        place: whose runs.
        columns: headers by value.
        caption: of the table.
        rows: of the runs; None for all of the place.
    """
    rows = place.rows if rows is None else rows
    cells: list[list[Cell]] = []
    for run in dict.fromkeys(row["run"] for row in rows):
        own = [row for row in rows if row["run"] == run]
        good = [row for row in own if not row["failed"]]
        means = [mean_of([row.get(value) for row in good]) for value in columns]
        cells.append([run, *means, f"{len(own) - len(good)} of {len(own)}"])
    return Table(["run", *columns.values(), "failed"], cells, caption)
