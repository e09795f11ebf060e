"""The table of heads."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rootpool.report import Cell, Number, Table, difference_by_seed
from rootpool.report.runs import Right
from rootpool.report.statistics import NORMAL
from rootpool.train import resolve
from rootpool.train.network import make_network
from studies.engine.command import Found
from studies.engine.kept import Kept
from studies.engine.pictures import mean_of
from studies.engine.study import Entry
from studies.engine.training import Place, Run

__all__ = ["heads"]


def heads(entry: Entry, places: Sequence[Place], kept: Kept) -> Found:
    """The table of heads."""
    return Found(blocks=[_table(place) for place in places])


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
                None if d is None else Number(d.difference, NORMAL * math.hypot(*d[1:]), "+.2f"),
                mean_of([row["seconds"] for row in good], ".0f"),
                Number(_learned(next(run for run in place.runs if run.label == name)), form=",d"),
            ]
        )
    seeds = len({row["seed"] for row in place.rows})
    caption = (
        f"Accuracy on {place.runs[0].folder.images} images: mean and standard deviation over {seeds} seeds. "
        "Differences are paired, by seed and by image, with half of their 95 % interval over both."
    )
    headers = ["head", "top-1, %", "top-5, %", f"against {first}", "seconds per seed", "parameters"]
    best = {"top-1, %": "highest", "top-5, %": "highest"}
    return Table(headers, rows, caption, best=best)  # type: ignore[arg-type]


def _learned(run: Run) -> int:
    """Parameters of the pooling and of the classifier; the rest is frozen."""
    network = make_network(resolve(run.trial.config).model, run.folder.classes or 0)
    return sum(p.numel() for p in network.parameters() if p.requires_grad)
