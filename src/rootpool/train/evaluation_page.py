"""A page about the errors of a trained network, with the photographs themselves.

The images are the user's own: the page is for looking at, and is not made to be published.
"""

from __future__ import annotations

import rootpool
from rootpool.report import Block, Facts, Heading, Number, Page, Picture, Table
from rootpool.report.plots import confused_pairs, confusion_matrix

from .data import LabelledImages, decode_image
from .evaluation import Evaluation, TrainedRun, data_of

__all__ = ["evaluation_page"]

WORST = 20


def evaluation_page(
    run: TrainedRun, found: Evaluation, root: str | None = None, on_bad_image: str | None = None
) -> Page:
    """The page.

    Args:
        run: the network.
        found: what `evaluate` gave for it.
        root: the data that it was measured on; None for the run's own.
        on_bad_image: as for `evaluate`.
    """
    page = Page(
        "Where it fails",
        lead=f"{run.checkpoint.parent.name}, after epoch {run.epoch + 1}.",
        footer=f"Written by rootpool {rootpool.__version__}.",
    )
    page.add(
        _facts(run, found),
        _worst(found),
        Picture.of(
            confusion_matrix, found.confusion, found.classes, alt="Predicted class by true class"
        ),
    )
    images = data_of(run, root, on_bad_image).splits.val
    if found.predicted and images.path(0):
        page.add(*_pairs(images, found))
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


def _pairs(images: LabelledImages, found: Evaluation) -> list[Block]:
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
