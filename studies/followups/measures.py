"""What the claims published since show: a table for each network, and one for few shots."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from rootpool.report import Block, Cell, Number, Picture, Table, compare
from rootpool.report.accuracy import NORMAL
from rootpool.report.plots import paired_differences
from studies.engine.command import Found
from studies.engine.kept import Kept
from studies.engine.pictures import results_table
from studies.engine.study import Entry
from studies.engine.training import Place, Row

from .few_shot import SHOTS, WAYS

__all__ = ["few_shot_blocks", "results"]

COLUMNS = {
    "val_error": "error, %",
    "train_error": "training error, %",
    "log_condition": "log10 of the condition",
}


def results(entry: Entry, places: Sequence[Place], kept: Kept) -> Found:
    """The runs of an entry in each network, and the table of few shots."""
    blocks: list[Block] = []
    for place in places:
        if place.kind == "few-shot":
            blocks += few_shot_blocks(place)
        else:
            caption = f"{place.name}: {place.about}. Mean and standard deviation over seeds."
            blocks.append(results_table(place, COLUMNS, caption))
    return Found(blocks=blocks)


def few_shot_blocks(place: Place) -> list[Block]:
    """The table, and how far each description is from the average."""
    rows = place.rows
    errors: dict[tuple[str, int], list[float]] = {}
    for row in rows:
        errors.setdefault((row["method"], row["shots"]), []).append(row["val_error"])
    cells: list[list[Cell]] = [
        [name, size, *(_accuracy(errors[name, shots]) for shots in SHOTS)]
        for name, size in dict.fromkeys((row["method"], row["size"]) for row in rows)
    ]
    table = Table(
        ["description", "numbers per image", *(f"{s} shot{'s' * (s > 1)}, %" for s in SHOTS)],
        cells,
        f"Accuracy in episodes of {WAYS} species, mean and 95 % interval of the mean over episodes.",
    )
    return [table, *(_picture(rows, shots) for shots in SHOTS)]


def _accuracy(errors: Sequence[float]) -> Number:
    return Number(100 - fmean(errors), NORMAL * stdev(errors) / math.sqrt(len(errors)))


def _picture(rows: Sequence[Row], shots: int) -> Picture:
    own = [row for row in rows if row["shots"] == shots]
    known = {row["run"]: row["method"] for row in own}
    (average,) = (run for run, method in known.items() if method == "average")
    found = [
        {**c.record(), "label": known[c.run], "method": known[c.run]}
        for c in compare(own, [(run, average) for run in known if run != average])
    ]
    return Picture.of(
        paired_differences,
        found,
        label=f"error against the average, points, {shots} shot{'s' * (shots > 1)} (left of zero: better)",
        alt=f"Differences to the average with {shots} labelled images of each species",
        caption="Paired by episode, with 95 % intervals.",
    )
