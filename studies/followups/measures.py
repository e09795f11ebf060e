"""What the claims published since show: a table for each network, and one for few shots."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from rootpool.report import Block, Cell, Number, Table
from rootpool.report.statistics import NORMAL
from studies.engine.command import Found
from studies.engine.kept import Kept
from studies.engine.pictures import results_table
from studies.engine.study import Entry
from studies.engine.training import Place

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
    """The table of few shots."""
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
    return [table]


def _accuracy(errors: Sequence[float]) -> Number:
    return Number(100 - fmean(errors), NORMAL * stdev(errors) / math.sqrt(len(errors)))
