"""A page about the errors of a trained network."""

from __future__ import annotations

import rootpool
from rootpool.report import Facts, Number, Page, Picture, Table
from rootpool.report.plots import confusion_matrix

from .evaluation import Evaluation, TrainedRun

__all__ = ["evaluation_page"]

WORST = 20


def evaluation_page(run: TrainedRun, found: Evaluation) -> Page:
    """The page of what `evaluate` found for a run."""
    page = Page(
        "Where it fails",
        lead=f"{run.checkpoint.parent.name}, after epoch {run.epoch + 1}.",
        footer=f"Written by rootpool {rootpool.__version__}.",
    )
    matrix = Picture.of(
        confusion_matrix, found.confusion, found.classes, alt="Predicted class by true class"
    )
    page.add(_facts(run, found), _worst(found), matrix)
    return page


def _facts(run: TrainedRun, found: Evaluation) -> Facts:
    errors = {"top-1 error": "val_error", "top-5 error": "val_error5"}
    if len(found.classes) <= 5:
        del errors["top-5 error"]
    numbers = {name: Number(found.metrics[key], unit="%") for name, key in errors.items()}
    return Facts(
        {"images": str(found.metrics["samples"]), **numbers, "pooling": run.module.pooling}
    )


def _worst(found: Evaluation) -> Table:
    rows = sorted(found.by_class(), key=lambda row: -row["error"])[:WORST]
    return Table(
        ["class", "images", "error, %", "taken for"],
        [
            [
                row["class"],
                Number(row["images"], form=".0f"),
                Number(row["error"], form=".1f"),
                row["confused_with"],
            ]
            for row in rows
        ],
        "Classes, the worst first.",
    )
