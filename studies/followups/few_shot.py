"""Few-shot classification of birds: species that no classifier has seen, by one or five photographs of each.

The split is that of Chen et al. (2019), which DeepBDC uses: of the classes in order, counted from 0, those
with ``k % 4 == 3`` are drawn for the test (50 of CUB), those with ``k % 4 == 1`` for choices. The others,
which methods that learn train on, are not needed: the features are frozen.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
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

from .episodes import draw_episodes, logistic_answers, nearest_mean_answers

__all__ = [
    "CLASSIFIERS",
    "DESCRIPTIONS",
    "SHOTS",
    "Birds",
    "cached_birds",
    "classify",
    "few_shots",
    "novel_classes",
]

SHOTS = (1, 5)
WAYS, QUERIES = 5, 15
PENALTIES = (0.2, 2.0, 20.0)  # C of the logistic regression; DeepBDC has 20 on CUB
CLASSIFIERS = ("nearest mean", "logistic regression")
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


def novel_classes(classes: int, remainder: int = 3) -> list[int]:
    """The classes of the test, or with ``remainder=1`` of the choices.

    >>> novel_classes(12), novel_classes(12, remainder=1)
    ([3, 7, 11], [1, 5, 9])
    """
    return list(range(remainder, classes, 4))


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
        pool = make_pool(
            cache.channels[stage],
            resolve_pool(method),
            None,
            output="isometric",
            scaling=Length(1.0),
        ).eval()
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
    """Errors of episodes with every description and classifier, as a place of a study.

    Args:
        data: the folder of the data set.
        output: of features and results; what is finished there is not done again.
        episodes: for each number of shots; the penalty is chosen on a quarter as many.
    """
    if episodes < 2:
        raise ValueError(
            f"episodes must be at least 2, got {episodes}; the literature has 600 to 10000"
        )
    birds, kept = cached_birds(data, output / "features"), Kept(output / "measured")
    for remainder in (3, 1):  # says what is missing, before anything is computed
        labels = birds.labels[birds.of(novel_classes(birds.classes, remainder))]
        draw_episodes(labels, 1, shots=max(SHOTS), ways=WAYS, queries=QUERIES)
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
    """How many queries are right in each episode, by classifier and number of shots."""
    rows: list[Record] = []
    chosen: dict[int, float] = {}
    other, novel = (birds.of(novel_classes(birds.classes, k)) for k in (1, 3))
    gram, _ = birds.gram(other, stage, method)
    for shots in SHOTS:
        count = max(episodes // 4, 1)
        drawn = draw_episodes(birds.labels[other], count, shots=shots, ways=WAYS, queries=QUERIES)
        right = {C: int(drawn.correct(logistic_answers(gram, drawn, C)).sum()) for C in PENALTIES}
        chosen[shots] = max(PENALTIES, key=lambda C: right[C])
    gram, size = birds.gram(novel, stage, method)
    for shots in SHOTS:
        drawn = draw_episodes(
            birds.labels[novel], episodes, shots=shots, ways=WAYS, queries=QUERIES
        )
        C = chosen[shots]
        answers = (nearest_mean_answers(gram, drawn), logistic_answers(gram, drawn, C))
        for classifier, penalty, given in zip(CLASSIFIERS, (None, C), answers, strict=True):
            own = {"classifier": classifier, "shots": shots, "penalty": penalty, "size": size}
            rows.append({**own, "correct": drawn.correct(given).tolist()})
    return rows


def _rows(name: str, found: Mapping[str, object]) -> list[Record]:
    """A row per episode; errors, so that a lower value is better."""
    tags = {k: found[k] for k in ("classifier", "shots", "size")}
    run = f"{name}, {tags['classifier']}, {tags['shots']} shot{'s' * (tags['shots'] != 1)}"
    errors = [100 - 100 * right / (WAYS * QUERIES) for right in found["correct"]]  # type: ignore[attr-defined]
    return [
        {"run": run, "method": name, **tags, "seed": k, "val_error": error, "failed": False}
        for k, error in enumerate(errors)
    ]
