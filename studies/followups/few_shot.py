"""Few-shot classification of birds: species that no classifier has seen, by one or five photographs of each.

The split is that of Chen et al. (2019), which DeepBDC uses: of the classes in order, counted from 0, those
with ``k % 4 == 3`` are drawn for the test (50 of CUB). The others, which methods that learn train on, are not
needed: the features are frozen, and the nearest mean learns nothing.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from rootpool.models import create_model
from rootpool.nn import Branch, Length, make_pool, resolve_pool
from rootpool.progress import Display
from rootpool.report import Record
from rootpool.train.data import Preprocessing, imagenet_transforms, open_splits
from rootpool.train.features import FeatureCache, cache_features
from studies.engine.kept import Kept
from studies.engine.training import Place

__all__ = [
    "DESCRIPTIONS",
    "SHOTS",
    "Birds",
    "cached_birds",
    "classify",
    "draw_episodes",
    "few_shots",
    "nearest_mean_answers",
    "novel_classes",
]

SHOTS = (1, 5)
WAYS, QUERIES = 5, 15  # classes of an episode, and images of each to name
BATCH = 64
LATE, LAST = "blocks.5", "average"
# Ways to describe an image: the stage, and the pooling of it to a vector of length 1.
DESCRIPTIONS: dict[str, tuple[str, str]] = {
    "average": (LATE, "gap"),
    "average of the last layer": (LAST, "gap"),
    "covariance": (LATE, "covariance"),
    "signed square root": (LATE, "signed-sqrt"),
    "root": (LATE, "exact"),
    "isqrt-cov": (LATE, "newton-fused"),  # the same up to rounding, in a third of its time
    "log-cholesky": (LATE, "log-cholesky"),
    "isice": (LATE, "isice"),
    "Brownian": (LATE, "brownian"),
}


def novel_classes(classes: int) -> list[int]:
    """The classes of the test.

    >>> novel_classes(12)
    [3, 7, 11]
    """
    return list(range(3, classes, 4))


@dataclass(frozen=True)
class Birds:
    """Cached features of the centre squares of all images, with their labels."""

    cache: FeatureCache
    labels: Tensor
    classes: int

    def of(self, classes: Sequence[int]) -> Tensor:
        """The images of some classes."""
        return torch.isin(self.labels, torch.tensor(classes)).nonzero().flatten()

    def gram(self, images: Tensor, stage: str, method: str) -> tuple[Tensor, int]:
        """Inner products of images as a pooling describes them, and the size of its vectors."""
        cache = self.cache.select([stage])
        options = {"output": "isometric", "scaling": Length(1.0)}
        pool = make_pool(cache.channels[stage], resolve_pool(method), **options).eval()
        with torch.inference_mode():
            batches = [pool(cache.batch(batch)[stage]) for batch in images.split(BATCH)]
        vectors = torch.cat(batches)
        return vectors @ vectors.mT, vectors.shape[1]


def cached_birds(data: str | os.PathLike[str], directory: str | os.PathLike[str]) -> Birds:
    """The features of a frozen EfficientNet-Lite0, of training and test images alike.

    Args:
        data: the folder of a data set in any layout that :func:`rootpool.train.data.open_splits` knows.
        directory: of the cached features.
    """
    look = Preprocessing(mean=(0.5,) * 3, std=(0.5,) * 3, interpolation="bicubic")
    _, transform = imagenet_transforms(224, 224, look)
    splits = open_splits(data, train_transform=transform, val_transform=transform)
    files = [part.path(k) for part in (splits.train, splits.val) for k in range(len(part))]
    branches = [Branch(stage, "gap") for stage in (LATE, LAST)]
    model = create_model("tf_efficientnet_lite0", branches, 1, weights="packaged")
    cache = cache_features(model.backbone, files, transform, directory, title="few shots")
    return Birds(cache, torch.cat([splits.train.labels, splits.val.labels]), len(splits.classes))


def few_shots(data: str, output: Path, episodes: int = 2000) -> Place:
    """Errors of episodes with every description, as a place of a study.

    Args:
        data: the folder of the data set.
        output: of features and results; what is finished there is not done again.
        episodes: for each number of shots.
    """
    if episodes < 2:
        raise ValueError(
            f"episodes must be at least 2, got {episodes}; the literature has 600 to 10000"
        )
    birds, kept = cached_birds(data, output / "features"), Kept(output / "measured")
    labels = birds.labels[birds.of(novel_classes(birds.classes))]
    draw_episodes(labels, 1, shots=max(SHOTS))  # says what is missing
    rows: list[Record] = []
    shared = {"files": [str(path) for path in birds.cache.files.values()], "episodes": episodes}
    with Display("few shots", total=len(DESCRIPTIONS)) as display:
        for k, (name, (stage, method)) in enumerate(DESCRIPTIONS.items()):
            made_from = {**shared, "stage": stage, "method": method}
            found = kept(
                "few-shot", made_from, lambda s=stage, m=method: classify(birds, s, m, episodes)
            )
            rows += [row for one in found for row in _rows(name, one)]
            display.update(k + 1, name)
    about = f"{episodes} episodes of {WAYS} species, features of a frozen EfficientNet-Lite0"
    return Place("few shots", "few-shot", rows, about=about)


def classify(birds: Birds, stage: str, method: str, episodes: int) -> list[Record]:
    """How many queries are right in each episode, by number of shots."""
    rows: list[Record] = []
    novel = birds.of(novel_classes(birds.classes))
    gram, size = birds.gram(novel, stage, method)
    for shots in SHOTS:
        labels = birds.labels[novel]
        drawn = draw_episodes(labels, episodes, shots=shots)
        right = drawn.correct(nearest_mean_answers(gram, drawn)).tolist()
        rows.append({"shots": shots, "size": size, "correct": right})
    return rows


def _rows(name: str, found: Record) -> list[Record]:
    """A row per episode; errors, so that a lower value is better."""
    tags = {k: found[k] for k in ("shots", "size")}
    run = f"{name}, {tags['shots']} shot{'s' * (tags['shots'] != 1)}"
    errors = [100 - 100 * right / (WAYS * QUERIES) for right in found["correct"]]
    return [
        {"run": run, "method": name, **tags, "seed": k, "val_error": error, "failed": False}
        for k, error in enumerate(errors)
    ]


# --------------------------------------------------------------------------------------------------
# Episodes: the classifier needs nothing of the vectors but their inner products, so that all are computed
# from one Gram matrix, side by side


@dataclass(frozen=True)
class Episodes:
    """Images by number: ``support`` is ``(episodes, ways, shots)``, ``queries`` the same with more images."""

    support: Tensor
    queries: Tensor

    def correct(self, answers: Tensor) -> Tensor:
        """How many queries of each episode are answered correctly, ``(episodes,)``."""
        return (answers == torch.arange(WAYS).repeat_interleave(QUERIES)).sum(1)


def draw_episodes(labels: Tensor, count: int, *, shots: int, seed: int = 0) -> Episodes:
    """Episodes of images drawn without replacement; the same for the same labels and seed.

    Args:
        labels: ``(n,)``, of all images that may be drawn.
        count: episodes.
        shots: labelled images of each class.
        seed: of the draw.
    """
    members = [torch.nonzero(labels == label).flatten() for label in labels.unique()]
    fewest = min((len(images) for images in members), default=0)
    if len(members) < WAYS or fewest < shots + QUERIES:
        raise ValueError(
            f"an episode needs {WAYS} classes of {shots + QUERIES} images each ({shots} shots and {QUERIES} "
            f"queries); there are {len(members)} classes, the smallest with {fewest} images"
        )
    generator = torch.Generator().manual_seed(seed)

    def of_class(images: Tensor) -> Tensor:
        return images[torch.randperm(len(images), generator=generator)[: shots + QUERIES]]

    drawn = torch.stack(
        [
            torch.stack(
                [
                    of_class(members[c])
                    for c in torch.randperm(len(members), generator=generator)[:WAYS]
                ]
            )
            for _ in range(count)
        ]
    )
    return Episodes(drawn[..., :shots], drawn[..., shots:])


def nearest_mean_answers(gram: Tensor, episodes: Episodes) -> Tensor:
    """The class whose mean is nearest to each query, ``(episodes, ways * queries)``.

    Args:
        gram: inner products of all images, ``(n, n)``.
        episodes: which of them.
    """
    ways_and_shots = episodes.support.shape[1:]
    support, queries = episodes.support.flatten(1), episodes.queries.flatten(1)
    within = gram[support.unsqueeze(2), support.unsqueeze(1)].double()
    across = gram[queries.unsqueeze(2), support.unsqueeze(1)].double()
    across = across.unflatten(2, ways_and_shots).mean(-1)
    means = within.unflatten(2, ways_and_shots).unflatten(1, ways_and_shots).mean((2, 4))
    # |q - m|^2 without |q|^2, which is the same for all classes
    return (means.diagonal(dim1=1, dim2=2).unsqueeze(1) - 2 * across).argmin(-1)
