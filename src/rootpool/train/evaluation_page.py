"""A page about the errors of a trained network, with the photographs themselves.

The images are the user's own: the page is for looking at, and is not made to be published.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

import rootpool
from rootpool.models import contributions
from rootpool.report import Block, Facts, Heading, Number, Page, Paragraph, Picture, Table
from rootpool.report.plots import confusion_matrix

from .data import EMBEDDED, LabelledImages
from .evaluation import Evaluation, TrainedRun, data_of
from .photographs import Photographs, draw_pairs

__all__ = ["evaluation_page"]

EXAMPLES, ANSWERS, WORST = 8, 5, 20


def evaluation_page(run: TrainedRun, found: Evaluation, root: str | None = None) -> Page:
    """The page.

    Args:
        run: the network.
        found: what :func:`~rootpool.train.evaluation.measure` gave for it.
        root: the data that it was measured on; None for those of the run.
    """
    metrics = found.metrics
    page = Page(
        "Where it fails",
        lead=f"{run.checkpoint.parent.name}, after epoch {run.epoch}.",
        footer=f"Written by rootpool {rootpool.__version__}.",
    )
    page.add(
        Facts(
            {
                "images": str(metrics["samples"]),
                "top-1 error": Number(metrics["val_error"], unit="%"),
                "top-5 error": Number(metrics["val_error5"], unit="%"),
                "pooling": run.module.pooling,
            }
        ),
        _worst(found),
        Picture.of(
            confusion_matrix, found.confusion, found.classes, alt="Predicted class by true class"
        ),
    )
    if found.predicted and (root or run.data_options["root"]) not in EMBEDDED:
        images: Any = data_of(run, root).splits.val
        paths = [images.path(k) for k in range(len(images))]
        photographs = Photographs(paths, images.labels.tolist(), found.predicted, found.classes)
        page.add(*_pairs(photographs), *_examples(run, images, photographs))
    return page


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
    count = len(images)
    drawn = sorted(
        np.random.default_rng(0).choice(count, min(EXAMPLES, count), replace=False).tolist()
    )
    return [
        Heading("A few images"),
        Paragraph(
            "Drawn at random, without looking at the answers. Beside each is what every position adds to the "
            "logit of the first answer (red) or takes from it (blue): the gradient of that logit through the "
            "pooling, times the features. For roots and averages these numbers add up to the logit. The map "
            "covers what the network sees, which may be less than the photograph."
        ),
        Picture.of(
            draw_examples,
            run,
            torch.stack([images[k][0] for k in drawn]),
            photographs,
            drawn,
            alt="Photographs, the most probable classes of each, and which positions speak for the first",
        ),
    ]


def draw_examples(
    run: TrainedRun, inputs: Tensor, photographs: Photographs, chosen: Sequence[int]
) -> Figure:
    """Photographs with their most probable classes, and maps of the positions that speak for the first."""
    model = run.module.model.eval()
    inputs = inputs.to(run.module.device)
    with torch.no_grad():
        count = min(ANSWERS, len(photographs.classes))
        shares, answers = model(inputs).softmax(1).topk(count)
    figure = Figure(figsize=(10, 3.0 * -(-len(chosen) // 2)), layout="constrained")
    try:
        maps = contributions(model, inputs, answers[:, 0]).cpu()
    except ValueError as error:  # a pooling of another kind, or branches with other positions
        maps = None
        figure.suptitle(f"no maps: {error}", fontsize=9)
    places = figure.subplots(-(-len(chosen) // 2), 4, squeeze=False).reshape(-1, 2)
    for pair in places:
        for place in pair:
            place.set_axis_off()
    for k, (index, (photograph, beside)) in enumerate(
        zip(chosen, places[: len(chosen)], strict=True)
    ):
        true = photographs.labels[index]
        photograph.imshow(photographs.picture(index))
        photograph.set_title(photographs.classes[true], fontsize=9, weight="bold")
        lines = [
            f"{'▸ ' if c == true else ''}{photographs.classes[c]} {p:.0%}"
            for c, p in zip(answers[k].tolist(), shares[k].tolist(), strict=True)
        ]
        photograph.set_axis_on()
        photograph.set(xticks=[], yticks=[])
        photograph.set_xlabel("\n".join(lines), fontsize=7)
        if maps is not None and maps.dim() == 3:
            largest = float(maps[k].abs().max()) or 1.0
            beside.imshow(maps[k].numpy(), cmap="RdBu_r", vmin=-largest, vmax=largest)
    return figure
