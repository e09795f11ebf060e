"""An overview of trained runs: a table of their errors, their curves and their spectra."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev

from rootpool.report import Block, Code, Facts, Note, Number, Picture, Table
from rootpool.report.plots import (
    dots_with_spread,
    learning_curve_panels,
    learning_curves,
    spectrum_over_training,
)

from .plan import Measured
from .rows import Row, curve_records, endings

__all__ = ["overview"]

CROWDED = 6  # methods; from here on each gets a panel of its own
COLUMNS = {
    "final error, %": "val_error",
    "best error, %": "best_error",
    "training error, %": "train_error",
}


def overview(study: Measured) -> list[Block]:
    """The blocks for all runs of a study."""
    runs = study.runs()
    rows = endings(runs)
    best = min(rows, key=lambda row: row["val_error"])
    seeds = len({row["seed"] for row in rows})
    facts = {
        "runs": str(len(rows)),
        "seeds": str(seeds),
        "lowest final error": f"{best['val_error']:.1f} % ({best['run']})",
    }
    return [
        Facts(facts),
        *(_one_seed() if seeds < 2 else []),
        _table(rows),
        *_pictures(study, rows),
    ]


def _one_seed() -> list[Block]:
    return [
        Note(
            "One seed: the spread is unknown, and another seed can change a result by a few points, so "
            "no comparison here is conclusive. Five seeds answer the questions of the paper:",
            tone="unclear",
        ),
        Code("rootpool demo --seeds 5"),
    ]


def _table(rows: Sequence[Row]) -> Table:
    def cell(values: Sequence[float]) -> Number:
        return Number(fmean(values), stdev(values) if len(values) > 1 else None, ".1f")

    grouped: dict[str, list[Row]] = {}
    for row in rows:
        grouped.setdefault(row["run"], []).append(row)
    ordered = sorted(grouped.items(), key=lambda item: fmean(row["val_error"] for row in item[1]))
    return Table(
        ["run", *COLUMNS],
        [
            [run, *(cell([row[key] for row in group]) for key in COLUMNS.values())]
            for run, group in ordered
        ],
        best={"final error, %": "lowest", "best error, %": "lowest"},
        caption="Validation error after the last epoch and in the best one, with the standard deviation "
        "over seeds where there are several. Hybrid runs with the same seed share their first stage.",
    )


def _pictures(study: Measured, rows: Sequence[Row]) -> list[Block]:
    runs = study.runs()
    crowded = len({row["method"] for row in rows}) >= CROWDED
    pictures: list[Block] = [
        Picture.of(
            learning_curve_panels if crowded else learning_curves,
            curve_records(runs),
            switch_epoch=study.plan.switch,
            decay_epochs=study.plan.milestones,
            alt="Validation error over the epochs, one line per run; the switch of the hybrid runs is marked",
            caption="Validation error. Dashed: hybrid runs, which leave Newton-Schulz at the switch.",
        ),
        Picture.of(
            dots_with_spread,
            rows,
            alt="Final validation error of each run and seed",
            caption="Final validation error of each seed.",
        ),
    ]
    spectrum = curve_records(study.runs(protocol="standalone"), "spectrum")
    if spectrum:
        caption = (
            "First eigenvalue of the covariance over the second, mean over a batch. Power iteration, and "
            "the Taylor series near a ratio of one, need it to be large."
        )
        pictures.append(
            Picture.of(
                spectrum_over_training,
                spectrum,
                value="eigenvalue_ratio",
                alt="Ratio of the two largest eigenvalues over the steps, one line per run",
                caption=caption,
            )
        )
    return pictures
