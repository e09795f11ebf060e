"""Birds on a laptop: heads on the features of a frozen EfficientNet-Lite0.

The settings were chosen on a held-out fifth of the training images (``measure_on="held-out"``); the test
images were used for the tables only.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torchvision.transforms import v2

from rootpool.files import write_atomically
from rootpool.models.efficientnet_lite import efficientnet_lite, efficientnet_lite_transform
from rootpool.models.stages import Stages
from rootpool.nn import method_names
from rootpool.progress import Display
from rootpool.report.records import read_json, write_records
from rootpool.suggest import unknown_name
from rootpool.train.data import ImageFiles, ImageSplits, LabelledImages, open_splits
from rootpool.train.features import Views, cache_features
from studies.approximation.filters import VARIANTS

from .head import Branch, Head, Schedule
from .study import Examples, HeadResult, hold_out, run_heads
from .summary import for_terminal, records, results_table

__all__ = ["MEASURE_ON", "TABLES", "BirdStudy", "backbone", "cached_splits", "run", "views"]

# 112 x 14 x 14, 192 x 7 x 7, and the average of the last layer, 1280 x 1 x 1.
MIDDLE, LATE, LAST = STAGES = ("blocks.4", "blocks.5", "global_pool.pool")
IMAGE_SIZE = 224
BATCH = 2  # images, of two views each: the features of more do not stay in the CPU's cache
MEASURE_ON = ("test", "held-out")

SHORT = Schedule(epochs=8)
# The best of 0.4, 0.04, 0.004 and this on the held-out images with seed 0, for both learned filters. Faster
# ones damp small eigenvalues more and more, which lowers the training loss and not the error.
SLOW_FILTER = Schedule(epochs=8, filter_rate=0.0004)
ROOT = Branch(LATE, "exact", 96)


# Methods that are the same up to rounding as others, in a third of their time.
FASTER = {"isqrt-cov": "newton-fused"}


def _head(*branches: Branch) -> Head:
    return Head(branches, SHORT)


TABLES: dict[str, dict[str, Head]] = {
    "main": {
        # The strong first-order head; it is cheap, so it gets more epochs.
        "average of the last layer": Head((Branch(LAST, "gap", power=0.5),), Schedule(epochs=12)),
        "average after a convolution": _head(Branch(LATE, "gap", 512, power=0.5)),
        "covariance": _head(replace(ROOT, method="covariance")),
        "root": _head(ROOT),
        "roots of two stages, average": _head(
            ROOT,
            Branch(MIDDLE, "exact", 48, length=2.0),
            Branch(LAST, "gap", length=2.0, power=0.5),
        ),
    },
    # The methods of the paper, whose claim is judged, and our default.
    "methods": {
        method: _head(replace(ROOT, method=method)) for method in ("exact", *method_names("paper"))
    },
    # All that there are, and DropCov, which is a dropout before the plain covariance.
    "all": {
        **{
            method: _head(replace(ROOT, method=FASTER.get(method, method)))
            for method in method_names()
        },
        "dropcov": _head(replace(ROOT, method="covariance", drop="adaptive")),
    },
    "approximation": {
        variant.label: Head(
            (
                replace(
                    ROOT,
                    method=FASTER.get(variant.method, variant.method),
                    options=tuple(variant.options.items()),
                ),
            ),
            SLOW_FILTER if "learned" in variant.tags else SHORT,
        )
        for variant in VARIANTS
    },
}


def backbone() -> Stages:
    """The frozen network, as it runs fastest on CPUs."""
    stages = Stages(efficientnet_lite(num_classes=0).eval(), STAGES)
    return stages.to(memory_format=torch.channels_last)


def views(image_size: int = IMAGE_SIZE) -> Views:
    """The centre square of an image, and the mirror image of the middle of it, enlarged."""
    whole = efficientnet_lite_transform(image_size, crop_pct=1.0)
    middle = efficientnet_lite_transform(image_size, crop_pct=0.8)
    return Views((whole, v2.Compose([v2.RandomHorizontalFlip(p=1.0), middle])))


@dataclass(frozen=True)
class BirdStudy:
    """The results of a run.

    Args:
        heads: the heads that were trained, by name.
        results: one per head and seed.
        classes: names of the species.
        files: the images that were measured on.
        seconds: wall-clock time of each part that ran from start to end without a stop.
    """

    heads: Mapping[str, Head]
    results: Sequence[HeadResult]
    classes: tuple[str, ...]
    files: Sequence[str]
    seconds: Mapping[str, float]


def cached_splits(
    data: str | os.PathLike[str], directory: str | os.PathLike[str], *, progress: bool = True
) -> tuple[Examples, Examples, ImageSplits]:
    """Features and labels for training and test, and the images that they belong to.

    Args:
        data: the folder of a data set in any layout that :func:`rootpool.train.data.open_splits` knows.
        directory: of the cached features.
        progress: whether to show a progress bar.
    """
    transform = views()
    splits = open_splits(data, train_transform=transform, val_transform=transform)
    network = backbone()
    train, test = (
        Examples.all(
            cache_features(
                network,
                _paths(images),
                transform,
                directory,
                batch_size=BATCH,
                progress=progress,
                title=title,
            ),
            images.labels,
        )
        for images, title in ((splits.train, "training images"), (splits.val, "test images"))
    )
    return train, test, splits


def _paths(images: LabelledImages) -> list[str]:
    assert isinstance(images, ImageFiles)
    return [images.path(k) for k in range(len(images))]


def run(
    data: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    table: str = "main",
    heads: Sequence[str] | None = None,
    seeds: int = 5,
    measure_on: str = "test",
    workers: int | None = None,
    progress: bool = True,
) -> BirdStudy:
    """From images to a table of accuracies. What is finished is kept: the same call again continues.

    Args:
        data: the folder of the data set: the official CUB-200-2011, or ``train`` and ``test`` folders.
        output: gets the cached features, a result for each head and seed, and ``<table>.json``.
        table: a name in ``TABLES``.
        heads: some of its heads; None for all.
        seeds: how many.
        measure_on: ``"test"``, or ``"held-out"`` for a fifth of the training images, to choose settings.
        workers: processes at a time; None for one per core.
        progress: whether to show progress.
    """
    if table not in TABLES:
        raise ValueError(f"table must be one of {', '.join(TABLES)}, got {table!r}")
    chosen = TABLES[table] if heads is None else _some(TABLES[table], heads)
    if measure_on not in MEASURE_ON:
        raise ValueError(f"measure_on must be {' or '.join(MEASURE_ON)}, got {measure_on!r}")
    folder, name = Path(output), f"{table}-{measure_on}"
    started, cold = time.perf_counter(), not (folder / "features").exists()
    train, test, splits = cached_splits(data, folder / "features", progress=progress)
    files = _paths(splits.val)
    if cold:
        _note_seconds(folder, "features", started)
    if measure_on == "held-out":
        (train, test), files = hold_out(train), _paths(splits.train)
    started, shares = time.perf_counter(), []
    caption = f"{table}: accuracy on {len(test.chosen)} {measure_on} images"
    with Display("training heads", total=1, quiet=not progress) as display:

        def show(share: float, found: list[HeadResult]) -> None:
            shares.append(share)
            display.update(share, below=for_terminal(results_table(chosen, found, caption)))

        results = run_heads(
            chosen,
            train,
            test,
            len(splits.classes),
            folder / "results",
            seeds=seeds,
            workers=workers,
            on_progress=show,
        )
    if shares[0] == 0:
        _note_seconds(folder, name, started)
    write_records(records(results), folder / f"{name}.csv")
    measured = [files[k] for k in test.chosen]
    return BirdStudy(chosen, results, splits.classes, measured, _seconds(folder))


def _some(table: Mapping[str, Head], names: Sequence[str]) -> dict[str, Head]:
    for name in names:
        if name not in table:
            raise ValueError(unknown_name("head", name, table))
    return {name: table[name] for name in names}


def _seconds(folder: Path) -> dict[str, float]:
    path = folder / "seconds.json"
    return read_json(path) if path.exists() else {}


def _note_seconds(folder: Path, part: str, started: float) -> None:
    """Keep the time of a part that ran from start to end without a stop."""
    seconds = _seconds(folder) | {part: round(time.perf_counter() - started, 1)}
    write_atomically(folder / "seconds.json", json.dumps(seconds))
