"""The page of ``rootpool report``: what distinguishes some runs, how they went and which did better."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from .blocks import Block, Cell, Details, Heading, Paragraph, Picture, Table
from .document import Page
from .plots import learning_curves, paired_differences
from .records import Record
from .runs import RunFolder, RunGroup, best_epoch, different_settings, group_runs, read_run
from .statistics import NORMAL, compare, comparison_table, difference_by_seed
from .text import Mono, Number

__all__ = ["report", "runs_page"]

ERROR, TRAIN_ERROR, LOSS = "val_error", "train_error", "train_loss"
FINAL, BEST = "final validation error, %", "best validation error, %"
IMAGES = ("data.root", "data.hold_out", "data.val_share")  # what decides on the validation images
MOST_LINES = 6  # in one plot; more runs get panels
SPECTRA = {
    "condition_mean": "Condition number of the covariances, mean over a batch.",
    "eigenvalue_ratio": "First eigenvalue over the second, mean over a batch.",
}


def report(runs: Sequence[str], output: str, title: str) -> int:
    """``rootpool report``: write the page as HTML or Markdown, by the end of ``output``."""
    path = Path(output)
    once = {Path(run).resolve(): run for run in runs}  # patterns of a shell may overlap
    page = runs_page(list(once.values()), title)
    written = page.write(path) if path.suffix == ".html" else page.write_markdown(path)
    print(f"report: {written}")
    return 0


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

    Returns:
        A page, to be written as HTML or Markdown, or added to.
    """
    if not folders:
        raise ValueError("a report needs at least one folder of a run")
    groups = group_runs([read_run(folder) for folder in folders], labels)
    configurations = f"{len(groups)} configuration{'s' * (len(groups) > 1)}"
    page = Page(title, lead=f"{len(folders)} run{'s' * (len(folders) > 1)} of {configurations}.")
    for section in (_errors, _comparisons, _settings, _curves, _spectra, _folders):
        page.add(*section(groups))
    return page


def _errors(groups: Sequence[RunGroup]) -> list[Block]:
    headers = ["run", "seeds", "epochs", FINAL, BEST, "best epoch", "final training error, %"]
    rows = [_error_row(group) for group in groups]
    if all(run.timing for group in groups for run in group.runs):
        headers.append("seconds per epoch")
        for row, group in zip(rows, groups, strict=True):
            seconds = median(record["seconds"] for record in group.records("timing"))
            row.append(Number(seconds, form=".3g"))
    table = Table(
        headers,
        rows,
        caption="Errors after the last epoch, and after the epoch with the lowest validation error; "
        "of several seeds the mean ± one standard deviation.",
        best={FINAL: "lowest", BEST: "lowest"},
    )
    caution = Paragraph(
        "The best epoch is chosen by looking at the validation images, so its error is too optimistic: "
        "compare runs by their final error."
    )
    return [Heading("Errors"), table, caution]


def _error_row(group: RunGroup) -> list[Cell]:
    best = [row for run in group.runs if (row := best_epoch(run.history))]
    return [
        group.label,
        len(group.runs),
        _listed(len(run.history) for run in group.runs),
        _mean(_final(run, ERROR) for run in group.runs),
        _mean(row[ERROR] for row in best),
        _listed(row["epoch"] + 1 for row in best),
        _mean(_final(run, TRAIN_ERROR) for run in group.runs),
    ]


def _final(run: RunFolder, value: str) -> float | None:
    return run.history[-1].get(value) if run.history else None


def _mean(values: Iterable[float | None]) -> Number | None:
    known = [value for value in values if value is not None]
    return Number.of(known) if known else None


def _listed(numbers: Iterable[int]) -> Cell:
    """The number, or different ones of several seeds."""
    different = sorted(set(numbers))
    return different[0] if len(different) == 1 else ", ".join(map(str, different)) or None


def _comparisons(groups: Sequence[RunGroup]) -> list[Block]:
    finals = [
        {**group.tags, "seed": run.seed, ERROR: error}
        for group in groups
        for run in group.runs
        if (error := _final(run, ERROR)) is not None and math.isfinite(error)
    ]
    first = groups[0].label
    seeds = {g.label: {r["seed"] for r in finals if r["run"] == g.label} for g in groups}
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
    table = comparison_table(comparisons, over_images=over_images)
    blocks: list[Block] = [Heading("Differences"), Paragraph(text), table]
    if max(shared.values()) == 1:
        return blocks
    methods = {group.label: group.tags["method"] for group in groups}
    return [
        *blocks,
        Picture.of(
            paired_differences,
            [{**one.record(), "method": methods[one.run]} for one in comparisons],
            label="difference in validation error, points (left of zero: better than the first)",
            alt=f"Differences to {first} with 95 % intervals",
        ),
    ]


def _over_images(groups: Sequence[RunGroup]) -> dict[str, float]:
    """By label, how far the difference to the first group reaches over other images; where that is known."""
    first, *others = groups
    same = [g for g in others if all(g.settings.get(k) == first.settings.get(k) for k in IMAGES)]
    found = {group.label: difference_by_seed(group.right, first.right) for group in same}
    return {label: NORMAL * d.images_error for label, d in found.items() if d is not None}


def _settings(groups: Sequence[RunGroup]) -> list[Block]:
    keys = different_settings([group.settings for group in groups])
    rows: list[list[Cell]] = [
        [key, *(_shown(group.settings.get(key)) for group in groups)] for key in keys
    ]
    table = Table(["setting", *(group.label for group in groups)], rows, "Settings that differ.")
    return [Heading("Settings"), table] if keys else []


def _shown(value: Any) -> str | None:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return None if value is None else str(value)


def _folders(groups: Sequence[RunGroup]) -> list[Block]:
    rows: list[list[Cell]] = [
        [Mono(str(run.folder)), group.label, run.seed, len(run.history), _final(run, ERROR)]
        for group in groups
        for run in group.runs
    ]
    return [Details("Every run", [Table(["folder", "run", "seed", "epochs", FINAL], rows)])]


def _curves(groups: Sequence[RunGroup]) -> list[Block]:
    history = [row for group in groups for row in group.records("history")]
    last = max((row["epoch"] for row in history), default=0)
    changes = {
        "panels": len(groups) > MOST_LINES,
        "switch_epoch": _shared(groups, "hybrid.switch_epoch"),
        "decay_epochs": [e for e in _shared(groups, "model.milestones") or () if e <= last],
    }
    alts = {ERROR: "Validation error by epoch", LOSS: "Training loss by epoch"}
    pictures = [
        Picture.of(
            learning_curves, [row for row in history if value in row], value, alt=alt, **changes
        )
        for value, alt in alts.items()
        if _is_known(history, value)
    ]
    return [Heading("Learning curves"), *pictures] if pictures else []


def _is_known(records: Sequence[Record], value: str) -> bool:
    return any(math.isfinite(record.get(value, math.nan)) for record in records)


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
            text = caption if len(pools) == 1 else f"{pool}: {caption}"
            if _is_known(rows, value):
                found = Picture.of(learning_curves, rows, value, x="step", alt=text, caption=text)
                pictures.append(found)
    return [Heading("Covariances"), *pictures] if pictures else []
