"""Birds on a laptop: heads on the features of a frozen EfficientNet-Lite0.

Settings were chosen on a held-out fifth of the training images (``measure_on="held-out"``); the test
images are for the tables alone.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from rich.console import Console
from rich.live import Live
from torchvision.transforms import v2

from rootpool.analysis.records import read_json, write_records
from rootpool.files import write_atomically
from rootpool.models.efficientnet_lite import efficientnet_lite0, efficientnet_lite0_transform
from rootpool.models.stages import Stages
from rootpool.nn import method_names
from rootpool.train.data import ImageFiles, ImageSplits, LabelledImages, open_splits

from .cache import Views, cache_features
from .head import Branch, Head, Schedule
from .study import Examples, HeadResult, hold_out, run_heads
from .summary import records, terminal_table

__all__ = ["MEASURE_ON", "TABLES", "BirdStudy", "backbone", "cached_splits", "run", "views"]

# 112 x 14 x 14, 192 x 7 x 7, and the average of the last layer, 1280 x 1 x 1.
MIDDLE, LATE, LAST = STAGES = ("blocks.4", "blocks.5", "global_pool.pool")
IMAGE_SIZE = 224
BATCH = 2  # images, of two views each: what is computed for more does not stay in the cache
MEASURE_ON = ("test", "held-out")

SHORT = Schedule(epochs=8)
ROOT = Branch(LATE, "exact", 96)


def _head(*branches: Branch) -> Head:
    return Head(branches, SHORT)


TABLES: dict[str, dict[str, Head]] = {
    "main": {
        # The strong first-order head; it costs nothing, so it gets more epochs.
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
    "methods": {
        method: _head(replace(ROOT, method=method)) for method in method_names("ours", "paper")
    },
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


@dataclass(frozen=True)
class BirdStudy:
    """What came out of a run.

    Args:
        heads: that were trained, by name.
        results: one a head and seed.
        classes: names of the species.
        files: of the images that were measured on.
        seconds: of each part on the clock, where it was done in one go from nothing.
    """

    heads: Mapping[str, Head]
    results: Sequence[HeadResult]
    classes: tuple[str, ...]
    files: Sequence[str]
    seconds: Mapping[str, float]


def cached_splits(
    data: str | os.PathLike[str], directory: str | os.PathLike[str], *, progress: bool = True
) -> tuple[Examples, Examples, ImageSplits]:
    """Features and labels for training and test, and the files that they are of.

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
    seeds: int = 5,
    measure_on: str = "test",
    workers: int | None = None,
    progress: bool = True,
) -> BirdStudy:
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
    folder, name = Path(output), f"{table}-{measure_on}"
    started, cold = time.perf_counter(), not (folder / "features").exists()
    train, test, splits = cached_splits(data, folder / "features", progress=progress)
    files = _paths(splits.val)
    if cold:
        _note_seconds(folder, "features", started)
    if measure_on == "held-out":
        (train, test), files = hold_out(train), _paths(splits.train)
    started, shares = time.perf_counter(), []
    title = f"{table}: accuracy on {len(test.chosen)} {measure_on} images, per cent"
    with Live(console=Console(quiet=not progress), refresh_per_second=2) as live:

        def show(share: float, found: list[HeadResult]) -> None:
            shares.append(share)
            live.update(terminal_table(f"{title}: {share:.0%} done", found))

        results = run_heads(
            TABLES[table],
            train,
            test,
            len(splits.classes),
            folder / "results",
            seeds=seeds,
            workers=workers,
            on_progress=show,
        )
        live.update(terminal_table(title, results))
    if shares[0] == 0:
        _note_seconds(folder, name, started)
    write_records(records(results), folder / f"{name}.json")
    measured = [files[k] for k in test.chosen]
    return BirdStudy(TABLES[table], results, splits.classes, measured, _seconds(folder))


def _seconds(folder: Path) -> dict[str, float]:
    path = folder / "seconds.json"
    return read_json(path) if path.exists() else {}


def _note_seconds(folder: Path, part: str, started: float) -> None:
    """Keep how long a part took that was done in one go, from nothing."""
    seconds = _seconds(folder) | {part: round(time.perf_counter() - started, 1)}
    write_atomically(folder / "seconds.json", json.dumps(seconds))
