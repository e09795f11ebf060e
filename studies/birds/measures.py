"""The table of heads, and how to look at what the best of them confuses."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from rootpool.report import Block, Cell, Number, Paragraph, Table, difference_by_seed
from rootpool.report.accuracy import NORMAL, Right
from studies.engine.command import Found
from studies.engine.kept import Kept
from studies.engine.pictures import mean_of
from studies.engine.study import Entry
from studies.engine.training import Place

__all__ = ["heads"]


def heads(entry: Entry, places: Sequence[Place], kept: Kept) -> Found:
    """The table of heads, and the command that shows the photographs that the best of them confuses."""
    blocks: list[Block] = []
    for place in places:
        good = [row for row in place.rows if not row["failed"]]
        runs = list(dict.fromkeys(row["run"] for row in good))
        best = max(runs, key=lambda run: fmean(r["accuracy"] for r in good if r["run"] == run))
        folder = next(run.folder.folder for run in place.runs if run.label == best)
        told = (
            "What is confused with what, with photographs: rootpool evaluate "
            f"{folder} --output evaluation ({best}, the first seed)."
        )
        blocks += [_table(place), Paragraph(told)]
    return Found(blocks=blocks)


def _table(place: Place) -> Table:
    """Accuracies of heads, and differences to the first on the same seeds and images."""
    right: dict[str, dict[int, Right]] = {}
    for run in place.runs:
        if run.folder.right is not None and run.folder.diverged is None:
            right.setdefault(run.label, {})[run.tags["seed"]] = run.folder.right
    first = place.rows[0]["run"]
    rows: list[list[Cell]] = []
    for name in dict.fromkeys(row["run"] for row in place.rows):
        own = [row for row in place.rows if row["run"] == name]
        good = [row for row in own if not row["failed"]]
        d = None if name == first else difference_by_seed(right.get(name, {}), right.get(first, {}))
        top5 = [None if row["val_error5"] is None else 100 - row["val_error5"] for row in good]
        rows.append(
            [
                name if len(good) == len(own) else f"{name} (failed {len(own) - len(good)} ×)",
                mean_of([row["accuracy"] for row in good]),
                mean_of(top5),
                None if d is None else Number(d.difference, NORMAL * d.error, "+.2f"),
                mean_of([row["seconds"] for row in good], ".0f"),
            ]
        )
    seeds = len({row["seed"] for row in place.rows})
    caption = (
        f"Accuracy on {place.runs[0].folder.images} images: mean and standard deviation over {seeds} seeds. "
        "Differences are paired, by seed and by image, with half of their 95 % interval over both."
    )
    headers = ["head", "top-1, %", "top-5, %", f"against {first}", "seconds per seed"]
    best = {"top-1, %": "highest", "top-5, %": "highest"}
    return Table(headers, rows, caption, best=best)  # type: ignore[arg-type]
