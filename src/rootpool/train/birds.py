"""Birds on a laptop: heads on the features of a frozen EfficientNet-Lite0.

Settings were chosen on a held-out fifth of the training images (``measure_on="held-out"``); the test
images served once, for the tables.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import torch
from rich.console import Console
from rich.live import Live
from torchvision.transforms import v2

from rootpool.analysis.records import write_records
from rootpool.models.efficientnet_lite import efficientnet_lite0, efficientnet_lite0_transform
from rootpool.models.stages import Stages
from rootpool.nn import METHODS

from .cache import Views, cache_features
from .data import ImageFiles, open_splits
from .head_report import records, terminal_table
from .head_study import Examples, HeadResult, hold_out, run_heads
from .heads import Branch, Head

__all__ = ["MEASURE_ON", "TABLES", "backbone", "cached_splits", "run", "views"]

# 112 x 14 x 14, 192 x 7 x 7, and the average of the last layer, 1280 x 1 x 1.
MIDDLE, LATE, LAST = STAGES = ("blocks.4", "blocks.5", "global_pool.pool")
IMAGE_SIZE = 224
MEASURE_ON = ("test", "held-out")

AVERAGE = Branch(LAST, "gap", length=4.0, power=0.5)
BEST = Head((Branch(LATE, "exact", 128),))


def _with_method(head: Head, method: str) -> Head:
    """The head with another method in all branches but averages."""
    return replace(
        head,
        branches=tuple(
            branch if branch.method == "gap" else replace(branch, method=method)
            for branch in head.branches
        ),
    )


TABLES: dict[str, dict[str, Head]] = {
    "main": {
        "average of the last layer": Head((AVERAGE,)),
        "1x1 convolution, average": Head((Branch(LATE, "gap", 512),)),
        "covariance": _with_method(BEST, "covariance"),
        "root": BEST,
    },
    "methods": {method: _with_method(BEST, method) for method in METHODS},
}


def backbone() -> Stages:
    """The frozen network, as it runs fastest on CPUs."""
    stages = Stages(efficientnet_lite0(num_classes=0).eval(), STAGES)
    return stages.to(memory_format=torch.channels_last)


def views(image_size: int = IMAGE_SIZE) -> Views:
    """The centre square of an image, and the mirror image of the middle of it, enlarged."""
    whole = efficientnet_lite0_transform(image_size, crop_pct=1.0)
    middle = efficientnet_lite0_transform(image_size, crop_pct=0.8)
    return Views((whole, v2.Compose([v2.RandomHorizontalFlip(p=1.0), middle])))


def cached_splits(
    data: str | os.PathLike[str], directory: str | os.PathLike[str], *, progress: bool = True
) -> tuple[Examples, Examples, tuple[str, ...]]:
    """Features and labels for training and test, and the names of the classes.

    Args:
        data: the folder of a data set in any layout that :func:`rootpool.train.data.open_splits` knows.
        directory: of the cached features.
        progress: whether to show a progress bar.
    """
    transform = views()
    splits = open_splits(data, train_transform=transform, val_transform=transform)
    network = backbone()

    def examples(images: object, title: str) -> Examples:
        assert isinstance(images, ImageFiles)
        files = [images.path(k) for k in range(len(images))]
        cache = cache_features(network, files, transform, directory, progress=progress, title=title)
        return Examples.all(cache, images.labels)

    train = examples(splits.train, "features of training images")
    test = examples(splits.val, "features of test images")
    return train, test, splits.classes


def run(
    data: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    table: str = "main",
    seeds: int = 5,
    measure_on: str = "test",
    workers: int | None = None,
    progress: bool = True,
) -> list[HeadResult]:
    """From images to a table of accuracies; what is finished is kept, and a second call goes on.

    Args:
        data: the folder of the data set: the official CUB-200-2011, or ``train`` and ``test`` folders.
        output: gets the cached features, a result for each head and seed, and ``<table>.json``.
        table: a name in ``TABLES``.
        seeds: how many.
        measure_on: ``"test"``, or ``"held-out"`` for a fifth of the training images, to choose settings.
        workers: processes at a time; None for one a core.
        progress: whether to show what is going on.
    """
    if table not in TABLES:
        raise ValueError(f"table must be one of {', '.join(TABLES)}, got {table!r}")
    if measure_on not in MEASURE_ON:
        raise ValueError(f"measure_on must be {' or '.join(MEASURE_ON)}, got {measure_on!r}")
    if seeds < 1:
        raise ValueError(f"seeds must be at least 1, got {seeds}")
    folder = Path(output)
    train, test, classes = cached_splits(data, folder / "features", progress=progress)
    if measure_on == "held-out":
        train, test = hold_out(train)
    title = f"{table}: accuracy on {len(test.chosen)} {measure_on} images, per cent"
    console = Console(quiet=not progress)
    with Live(console=console, refresh_per_second=2) as live:

        def show(share: float, results: list[HeadResult]) -> None:
            live.update(terminal_table(f"{title}: {share:.0%} done", results))

        results = run_heads(
            TABLES[table],
            train,
            test,
            len(classes),
            folder / "results",
            seeds=seeds,
            workers=workers,
            on_progress=show,
        )
        live.update(terminal_table(title, results))
    write_records(records(results), folder / f"{table}-{measure_on}.json")
    return results
