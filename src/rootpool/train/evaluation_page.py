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
    errors = {name: Number(value, unit="%") for name, value in found.errors.items()}
    images = str(found.metrics["samples"])
    rows = [
        [row["class"], row["images"], Number(row["error"], form=".1f"), row["confused_with"]]
        for row in found.by_class()[:WORST]
    ]
    headers = ["class", "images", "error, %", "taken for"]
    page.add(
        Facts({"images": images, **errors, "pooling": run.module.pooling}),
        Table(headers, rows, "Classes, the worst first."),
        matrix,
    )
    return page
