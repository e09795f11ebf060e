"""A page about the errors of a trained network, with the photographs themselves.

The images are the user's own: the page is for looking at, and is not made to be published.
"""

from __future__ import annotations

from typing import Any

import rootpool
from rootpool.report import Block, Facts, Heading, Number, Page, Picture, Table
from rootpool.report.plots import confused_pairs, confusion_matrix

from .data import EMBEDDED, decode_image
from .evaluation import Evaluation, TrainedRun, data_of

__all__ = ["evaluation_page"]

WORST = 20


def evaluation_page(
    run: TrainedRun, found: Evaluation, root: str | None = None, on_bad_image: str | None = None
) -> Page:
    """The page.

    Args:
        run: the network.
        found: what :func:`~rootpool.train.evaluation.measure` gave for it.
        root: the data that it was measured on; None for those of the run.
        on_bad_image: as for ``measure``.
    """
    metrics = found.metrics
    page = Page(
        "Where it fails",
        lead=f"{run.checkpoint.parent.name}, after epoch {run.epoch + 1}.",
        footer=f"Written by rootpool {rootpool.__version__}.",
    )
    page.add(
        Facts(
            {
                "images": str(metrics["samples"]),
                "top-1 error": Number(metrics["val_error"], unit="%"),
                **_top5(found),
                "pooling": run.module.pooling,
            }
        ),
        _worst(found),
        Picture.of(
            confusion_matrix, found.confusion, found.classes, alt="Predicted class by true class"
        ),
    )
    if found.predicted and (root or run.data_options["root"]) not in EMBEDDED:
        page.add(*_pairs(data_of(run, root, on_bad_image).splits.val, found))
    return page


def _top5(found: Evaluation) -> dict[str, Number]:
    """The top-5 error, where there are more classes than that."""
    enough = len(found.classes) > 5
    return {"top-5 error": Number(found.metrics["val_error5"], unit="%")} if enough else {}


def _worst(found: Evaluation) -> Table:
    rows = sorted(found.by_class(), key=lambda row: -row["error"])
    return Table(
        ["class", "images", "error, %", "taken for"],
        [
            [
                row["class"],
                Number(row["images"], form=".0f"),
                Number(row["error"], form=".1f"),
                row["confused_with"],
            ]
            for row in rows[:WORST]
        ],
        f"The worst of {len(rows)} classes."
        if len(rows) > WORST
        else "All classes, the worst first.",
    )


def _pairs(images: Any, found: Evaluation) -> list[Block]:
    labels = images.labels.tolist()
    if list(found.predicted) == labels:
        return []
    return [
        Heading("What is confused with what"),
        Picture.of(
            confused_pairs,
            lambda k: decode_image(images.path(k)),
            labels,
            found.predicted,
            found.classes,
            alt="Pairs of classes that are confused most often, with a photograph of each",
            caption="Left: a photograph that was taken for the class on the right. Right: one of that class "
            "that was recognised.",
        ),
    ]
