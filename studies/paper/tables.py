"""The tables of errors and the text on seeds: trained runs next to what the paper prints."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import stdev

import numpy as np
from numpy.typing import NDArray

from rootpool.report.accuracy import difference_by_seed, recognised
from rootpool.report.records import Record

from .judge import (
    Answer,
    answers_beside,
    answers_from_runs,
    comparison_records,
    conclude,
    resolution,
)
from .plan import Measured
from .published import Table, TextClaim, load_published
from .result import Result, verdict_of
from .rows import cells_of, curve_records, divergences, endings, settings_of, side_by_side

__all__ = ["measure_errors", "measure_seeds"]


def measure_errors(table: Table, study: Measured) -> Result:
    """A table of errors or accuracies: its columns and questions are in ``published.yaml``."""
    rows = endings(study.runs())
    return conclude(
        table,
        answers_from_runs(table, rows),
        side_by_side(table, cells_of(table, study)),
        {
            **settings_of(study.plan),
            **resolution(table, rows),
            **divergences(rows),
            **_photographs(study),
        },
        runs=rows,
        curves=curve_records(study.runs()),
        comparisons=_over_images(comparison_records(table, rows), study),
        beside=answers_beside(table, rows),
    )


def _over_images(comparisons: Sequence[Record], study: Measured) -> list[Record]:
    """Comparisons with ``over_images``, where runs say which images they recognised.

    It is half the width of the 95 % interval of the difference over other images, paired by image and by
    seed; the interval of the comparison itself is over other seeds.
    """
    right: dict[object, dict[int, NDArray[np.bool_]]] = {}
    for run in study.runs():
        if run.get("images") and run.get("diverged") is None:
            seeds = right.setdefault(run["label"], {})
            seeds[run["tags"]["seed"]] = recognised(run["images"], run["missed"])
    found = []
    for record in comparisons:
        ours, theirs = (right.get(record[side], {}) for side in ("run", "baseline"))
        if (difference := difference_by_seed(ours, theirs)) is not None:
            record = {**record, "over_images": difference.images_reach}
        found.append(record)
    return found


def _photographs(study: Measured) -> Record:
    """How to look at what the best run takes for what, as a setting; embedded images are not worth it."""
    if study.plan.miniature:
        return {}
    ends = zip(endings(study.runs()), study.trials, strict=True)
    best, trial = min(ends, key=lambda end: end[0]["val_error"])
    return {
        "photographs": f"rootpool evaluate {study.folder / trial.key} --output evaluation shows what is "
        f"confused with what, and why, by the best run ({best['run']}, seed {best['seed']})"
    }


def measure_seeds(text: TextClaim, study: Measured) -> Result:
    """How much the final error of SVD-Pade, standalone, varies with the seed."""
    said = load_published().statements
    rows = endings(study.runs())
    errors = [row["val_error"] for row in rows]
    limit = said["seed-fluctuation"].value
    spread = stdev(errors) if len(errors) > 1 else None
    few = len(errors) < said["seeds"].value
    answer = Answer(
        f"The final error of SVD-Pade varies by {limit:g} % with the seed. Here it has "
        + (f"a standard deviation of {spread:.2f}" if spread is not None else "no known spread")
        + f" points over {len(errors)} seeds, between {min(errors):.2f} and {max(errors):.2f} %.",
        verdict_of(None if spread is None or (few and spread <= limit) else spread <= limit),
    )
    cell: Record = {"row": "SVD-Pade", "column": "spread of the final error"}
    printed: Record = {**cell, "printed": f"{limit:g}", "published": limit}
    here: Record = {**cell, "measured": spread}
    settings = {**settings_of(study.plan), "seeds": len(errors)}
    return conclude(text, [answer], [printed, here], settings, runs=rows)
