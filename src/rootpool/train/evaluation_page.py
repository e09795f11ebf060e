"""A page about the errors of a trained network, with the photographs themselves.

The images are the user's own: the page is for looking at, and is not made to be published.
"""

from __future__ import annotations

from typing import Any

import torch

import rootpool
from rootpool.models import contributions
from rootpool.report import (
    Block,
    Facts,
    Heading,
    Number,
    Page,
    Paragraph,
    Photographs,
    Picture,
    Table,
    draw_examples,
    draw_pairs,
)
from rootpool.report.plots import confusion_matrix

from .data import EMBEDDED, LabelledImages, decode_image
from .evaluation import Evaluation, TrainedRun, data_of

__all__ = ["evaluation_page"]

ANSWERS, WORST = 5, 20


def evaluation_page(
    run: TrainedRun, found: Evaluation, root: str | None = None, on_bad_image: str | None = None
) -> Page:
    """The page.

    Args:
        run: the network.
        found: what :func:`~rootpool.train.evaluation.measure` gave for it.
        root: the data that it was measured on; None for the run's own.
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
        images: Any = data_of(run, root, on_bad_image).splits.val
        photographs = Photographs(
            lambda k: decode_image(images.path(k)),
            images.labels.tolist(),
            found.predicted,
            found.classes,
        )
        page.add(*_pairs(photographs), *_examples(run, images, photographs))
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


# --------------------------------------------------------------------------------------------------
# Photographs


def _pairs(photographs: Photographs) -> list[Block]:
    if not photographs.confused():
        return []
    return [
        Heading("What is confused with what"),
        Picture.of(
            draw_pairs,
            photographs,
            alt="Pairs of classes that are confused most often, with a photograph of each",
            caption="Left: a photograph that was taken for the class on the right. Right: one of that class "
            "that was recognised.",
        ),
    ]


def _examples(run: TrainedRun, images: LabelledImages, photographs: Photographs) -> list[Block]:
    model, drawn = run.module.model.eval(), photographs.sample()
    inputs = torch.stack([images[k][0] for k in drawn]).to(run.module.device)
    with torch.no_grad():
        best = model(inputs).softmax(1).topk(min(ANSWERS, len(photographs.classes)))
    answers = [
        list(zip(*pair, strict=True))
        for pair in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]
    text = "Drawn at random, without looking at the answers."
    maps = None
    try:
        found = contributions(model, inputs, best.indices[:, 0]).cpu()
        maps = list(found.numpy()) if found.dim() == 3 else None
    except ValueError as error:  # a pooling of another kind, or branches with other positions
        text += f" (No maps: {error}.)"
    if maps is not None:
        text += (
            " Beside each is what every position adds to the logit of the first answer (red) or takes "
            "from it (blue): the gradient of that logit through the pooling, times the features. For roots "
            "and averages these numbers add up to the logit. The map covers what the network sees, which "
            "may be less than the photograph."
        )
    return [
        Heading("A few images"),
        Paragraph(text),
        Picture.of(
            draw_examples,
            photographs,
            drawn,
            answers,
            maps,
            alt="Photographs, the most probable classes of each, and which positions speak for the first",
        ),
    ]
