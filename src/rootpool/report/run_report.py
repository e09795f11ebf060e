"""The page of ``rootpool report``: what distinguishes some runs, how they went and which did better."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .accuracy import difference_by_seed
from .blocks import Block, Details, Heading, Paragraph, Picture
from .comparisons import comparison_table
from .document import Page
from .plots import (
    dots_with_spread,
    learning_curve_panels,
    learning_curves,
    paired_differences,
    spectrum_over_training,
)
from .records import Record
from .runs import RunFolder, RunGroup, different_settings, group_runs, read_run
from .statistics import Comparison, compare
from .table import Cell, Table
from .text import Mono, Number

__all__ = ["runs_page"]

ERROR, TRAIN_ERROR = "val_error", "train_error"
FINAL, BEST = "final validation error, %", "best validation error, %"
IMAGES = ("data.root", "data.hold_out", "data.val_share")  # what decides on the validation images
MOST_LINES = 6  # in one plot; more runs get panels
SPECTRA = {
    "condition_mean": "Condition number of the covariances, mean over a batch.",
    "eigenvalue_ratio": "First eigenvalue over the second, mean over a batch.",
}


def runs_page(
    folders: Sequence[str | Path],
    title: str = "Report of training runs",
    labels: Sequence[str] | None = None,
) -> Page:
    """A report of the runs in some folders.

    Runs that differ only in their seed are shown together. Each group is compared with the first in pairs of
    the same seed, if they share two or more; with one, image by image, if both noted which they missed.

    Args:
        folders: as ``rootpool train`` wrote them; the others are compared with the first.
        title: of the page.
        labels: of the runs, the same for those that differ only in their seed; by default their settings.
    """
    if not folders:
        raise ValueError("a report needs at least one folder of a run")
    groups = group_runs([read_run(folder) for folder in folders], labels)
    page = Page(title, lead=_lead(groups))
    for section in (_errors, _comparisons, _settings, _curves, _spectra, _folders):
        page.add(*section(groups))
    return page


def _lead(groups: Sequence[RunGroup]) -> str:
    count = sum(len(group.runs) for group in groups)
    runs = f"{count} run{'s' * (count > 1)}"
    if _single(groups):
        return f"{runs}."
    return f"{runs} of {len(groups)} configuration{'s' * (len(groups) > 1)} with different seeds."


def _single(groups: Sequence[RunGroup]) -> bool:
    """Whether no configuration has several seeds."""
    return all(len(group.runs) == 1 for group in groups)


def _errors(groups: Sequence[RunGroup]) -> list[Block]:
    timed = all(run.timing for group in groups for run in group.runs)
    headers = [
        "run",
        "seeds",
        "epochs",
        FINAL,
        BEST,
        "best epoch (from 0)",
        "final training error, %",
    ]
    rows = [_error_row(group) + ([_seconds(group)] if timed else []) for group in groups]
    table = Table(
        headers + ["seconds per epoch"] * timed,
        rows,
        caption="Errors after the last epoch, and after the epoch with the lowest validation error"
        + ("." if _single(groups) else "; mean ± one standard deviation over seeds."),
        best={FINAL: "lowest", BEST: "lowest"},
    )
    caution = Paragraph(
        "The best epoch is chosen by looking at the validation images, so its error is too optimistic: "
        "compare runs by their final error."
    )
    return [Heading("Errors"), table, caution]


def _error_row(group: RunGroup) -> list[Cell]:
    best = [_best(run) for run in group.runs]
    return [
        group.label,
        len(group.runs),
        _listed(len(run.history) for run in group.runs),
        _mean([_final(run, ERROR) for run in group.runs]),
        _mean([None if row is None else row[ERROR] for row in best]),
        _listed(row["epoch"] for row in best if row is not None),
        _mean([_final(run, TRAIN_ERROR) for run in group.runs]),
    ]


def _final(run: RunFolder, value: str) -> float | None:
    return run.history[-1].get(value)


def _best(run: RunFolder) -> Record | None:
    """The epoch with the lowest validation error."""
    measured = [row for row in run.history if math.isfinite(row.get(ERROR, math.nan))]
    return min(measured, key=lambda row: row[ERROR], default=None)


def _mean(values: Sequence[float | None]) -> Number | None:
    known = [value for value in values if value is not None]
    return Number.of(known) if known else None


def _listed(numbers: Iterable[int]) -> Cell:
    """The number, or different ones of several seeds."""
    different = sorted(set(numbers))
    return different[0] if len(different) == 1 else ", ".join(map(str, different)) or None


def _seconds(group: RunGroup) -> Number:
    return Number(median(row["seconds"] for row in group.records("timing")), form=".3g")


def _comparisons(groups: Sequence[RunGroup]) -> list[Block]:
    finals = [
        {**group.tags, "seed": run.seed, ERROR: error}
        for group in groups
        for run in group.runs
        if (error := _final(run, ERROR)) is not None and math.isfinite(error)
    ]
    seeds = {
        group.label: {r["seed"] for r in finals if r["run"] == group.label} for group in groups
    }
    first = groups[0].label
    shared = {g.label: len(seeds[g.label] & seeds[first]) for g in groups[1:]}
    over_images = _over_images(groups)
    # One seed has no spread over seeds, but it has one over images.
    pairs = [(run, first) for run, n in shared.items() if n > 1 or (n == 1 and run in over_images)]
    if not pairs:
        return []
    comparisons = compare(finals, pairs, ERROR)
    text = (
        f"Final validation errors minus those of {first} with the same seed. An interval covers the mean "
        "difference over other seeds with 95 % confidence (Student's t); p-values are corrected for the "
        "number of comparisons (Holm)."
    )
    if over_images:
        text += " The interval over images, paired by image, is for these seeds and other images."
    blocks: list[Block] = [
        Heading("Differences"),
        Paragraph(text),
        comparison_table(comparisons, over_images=over_images),
    ]
    if max(shared.values()) == 1:
        return blocks
    return [
        *blocks,
        Picture.of(
            paired_differences,
            _rows(comparisons, groups),
            label="difference in validation error, points (left of zero: better than the first)",
            alt=f"Differences to {first} with 95 % intervals",
        ),
        Picture.of(dots_with_spread, finals, alt="Final validation error of every run and seed"),
    ]


def _over_images(groups: Sequence[RunGroup]) -> dict[str, float]:
    """By label, how far the difference to the first group reaches over other images; where that is known."""
    first, *others = groups
    same = [g for g in others if all(g.settings.get(k) == first.settings.get(k) for k in IMAGES)]
    found = ((g.label, difference_by_seed(_right(g), _right(first))) for g in same)
    return {label: d.images_reach for label, d in found if d is not None}


def _right(group: RunGroup) -> dict[int, NDArray[np.bool_]]:
    return {run.seed: run.right for run in group.runs if run.right is not None}


def _rows(comparisons: Sequence[Comparison], groups: Sequence[RunGroup]) -> list[Record]:
    methods = {group.label: group.tags["method"] for group in groups}
    return [{**one.record(), "method": methods[one.run]} for one in comparisons]


def _settings(groups: Sequence[RunGroup]) -> list[Block]:
    if len(groups) == 1:
        return []
    keys = different_settings([group.settings for group in groups])
    if not keys:
        return [
            Heading("Settings"),
            Paragraph("All runs have the same settings and the same seed."),
        ]
    rows: list[list[Cell]] = [
        [group.label, *(_shown(group.settings.get(key)) for key in keys)] for group in groups
    ]
    return [Heading("Settings"), Table(["run", *keys], rows, caption="Settings that differ.")]


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "–" if value is None else str(value)


def _folders(groups: Sequence[RunGroup]) -> list[Block]:
    rows: list[list[Cell]] = [
        [Mono(str(run.folder)), group.label, run.seed, len(run.history), _final(run, ERROR)]
        for group in groups
        for run in group.runs
    ]
    headers = ["folder", "run", "seed", "epochs", FINAL]
    return [Details("Every run", [Table(headers, rows)])]


def _curves(groups: Sequence[RunGroup]) -> list[Block]:
    history = [row for group in groups for row in group.records("history")]
    draw = learning_curves if len(groups) <= MOST_LINES else learning_curve_panels
    alts = {ERROR: "Validation error by epoch", "train_loss": "Training loss by epoch"}
    last = max(row["epoch"] for row in history)
    decays = [epoch for epoch in _shared(groups, "model.milestones") or () if epoch <= last]
    pictures = [
        Picture.of(
            draw,
            [row for row in history if value in row],
            value=value,
            switch_epoch=_shared(groups, "hybrid.switch_epoch"),
            decay_epochs=decays,
            alt=alt,
        )
        for value, alt in alts.items()
        if any(math.isfinite(row.get(value, math.nan)) for row in history)
    ]
    return [Heading("Learning curves"), *pictures] if pictures else []


def _shared(groups: Sequence[RunGroup], key: str) -> Any:
    """The setting of all groups that have it, if they agree."""
    values = [group.settings[key] for group in groups if group.settings.get(key) is not None]
    return values[0] if values and all(value == values[0] for value in values) else None


def _spectra(groups: Sequence[RunGroup]) -> list[Block]:
    records = [row for group in groups for row in group.records("spectrum")]
    pools = list(dict.fromkeys(str(row["pool"]) for row in records))
    pictures = []
    for pool in pools:
        rows = [row for row in records if row["pool"] == pool]
        for value, caption in SPECTRA.items():
            if any(math.isfinite(row[value]) for row in rows):
                text = caption if len(pools) == 1 else f"{pool}: {caption}"
                pictures.append(
                    Picture.of(spectrum_over_training, rows, value, alt=text, caption=text)
                )
    return [Heading("Covariances"), *pictures] if pictures else []
