"""Few-shot classification of birds: species that no classifier has seen, by one or five photographs of each.

The split is that of Chen et al. (2019), which DeepBDC uses: of the classes in order, counted from 0, those
with ``k % 4 == 3`` are drawn for the test (50 of CUB), those with ``k % 4 == 1`` for choices. The others,
which methods that learn train on, are not needed: the features are frozen.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from rootpool.train.jobs import Job, Report, result_file, run_jobs, stable_key, versions
from torch import Tensor

from rootpool.progress import Display
from rootpool.report.records import read_json, to_json
from studies.birds.birds import FASTER, LAST, LATE, cached_splits
from studies.birds.head import EVALUATION_BATCH, Branch
from studies.birds.study import Examples

from .episodes import draw_episodes, logistic_answers, nearest_mean_answers

__all__ = ["CLASSIFIERS", "FEW_SHOT", "SHOTS", "FewShotResult", "novel_classes", "run_few_shot"]

SHOTS = (1, 5)
WAYS, QUERIES = 5, 15
PENALTIES = (0.2, 2.0, 20.0)  # C of the logistic regression; DeepBDC has 20 on CUB
CLASSIFIERS = ("nearest mean", "logistic regression")


def _unit(stage: str, method: str, *options: tuple[str, float]) -> Branch:
    """A pooling without anything that learns, as a vector of length 1."""
    return Branch(stage, method, length=1.0, options=options)


FEW_SHOT: dict[str, Branch] = {
    "average": _unit(LATE, "gap"),
    "average of the last layer": _unit(LAST, "gap"),
    "covariance": _unit(LATE, "covariance"),
    "signed square root": _unit(LATE, "signed-sqrt"),
    "root": _unit(LATE, "exact"),
    "isqrt-cov": _unit(LATE, FASTER["isqrt-cov"]),
    "log-cholesky": _unit(LATE, "log-cholesky"),
    "isice": _unit(LATE, "isice"),
    "Brownian": _unit(LATE, "brownian"),
}


def novel_classes(classes: int, remainder: int = 3) -> list[int]:
    """The classes of the test, or with ``remainder=1`` of the choices.

    >>> novel_classes(12), novel_classes(12, remainder=1)
    ([3, 7, 11], [1, 5, 9])
    """
    return list(range(remainder, classes, 4))


@dataclass(frozen=True)
class FewShotResult:
    """One way to describe images, one classifier and one number of shots.

    Args:
        head: name of the description, a key of ``FEW_SHOT``.
        classifier: one of ``CLASSIFIERS``.
        shots: labelled images of each class.
        penalty: C of the logistic regression, chosen on other classes; None for nearest means.
        accuracies: of each episode, in per cent; the episodes are the same for all.
        size: of the vectors.
        seconds: CPU time of the head, with both classifiers.
    """

    head: str
    classifier: str
    shots: int
    penalty: float | None
    accuracies: tuple[float, ...]
    size: int
    seconds: float


@dataclass(frozen=True)
class Pool:
    """Images of some classes, from the training and from the test images: all are drawn from."""

    parts: tuple[Examples, ...]
    classes: tuple[int, ...]

    def _chosen(self) -> list[tuple[Examples, Tensor]]:
        wanted = torch.tensor(self.classes)
        return [
            (part, torch.nonzero(torch.isin(part.labels, wanted)).flatten()) for part in self.parts
        ]

    @property
    def labels(self) -> Tensor:
        return torch.cat([part.labels[images] for part, images in self._chosen()])

    def gram(self, branch: Branch) -> tuple[Tensor, int]:
        """Inner products of all images as a branch describes them, and the size of the vectors."""
        vectors = torch.cat([_vectors(branch, part, images) for part, images in self._chosen()])
        return vectors @ vectors.mT, vectors.shape[1]


def _vectors(branch: Branch, examples: Examples, images: Tensor) -> Tensor:
    """Of the first view of each image, the centre square."""
    cache = examples.cache.select([branch.stage])
    pool = branch.pool(cache.channels[branch.stage]).eval()
    with torch.inference_mode():
        batches = [
            pool(cache.batch(batch)[branch.stage]) for batch in images.split(EVALUATION_BATCH)
        ]
        return torch.cat(batches)


def run_few_shot(
    data: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    heads: Mapping[str, Branch] = FEW_SHOT,
    episodes: int = 2000,
    workers: int | None = None,
    progress: bool = True,
) -> list[FewShotResult]:
    """Classify episodes with every head; what is finished is kept, and the same call again continues.

    Args:
        data: the folder of the data set, as for :func:`studies.birds.birds.run`.
        output: the folder of ``python -m studies birds``, whose features are used or computed.
        heads: descriptions of images by name.
        episodes: for each number of shots; the penalty is chosen on a quarter as many.
        workers: processes at a time; None for one per core.
        progress: whether to show progress.
    """
    if episodes < 2:
        raise ValueError(
            f"episodes must be at least 2, got {episodes}; the literature has 600 to 10000"
        )
    folder = Path(output)
    train, test, splits = cached_splits(data, folder / "features", progress=progress)
    count = len(splits.classes)
    novel, other = (
        Pool((train, test), tuple(novel_classes(count, remainder))) for remainder in (3, 1)
    )
    for pool in (novel, other):  # says what is missing, before anything is computed
        draw_episodes(pool.labels, 1, shots=max(SHOTS), ways=WAYS, queries=QUERIES)
    shared = {"train": train.key, "test": test.key, "episodes": episodes, "versions": versions()}
    shared |= {"ways": WAYS, "queries": QUERIES, "shots": SHOTS, "penalties": PENALTIES}
    keys = {name: stable_key({**shared, "head": branch}) for name, branch in heads.items()}
    jobs = {
        keys[name]: Job(f"{name}, few shots", partial(_classify, branch, novel, other, episodes))
        for name, branch in heads.items()
    }
    results = (folder / "few-shot").absolute()
    done = sum(result_file(results, key, job).is_file() for key, job in jobs.items())
    with Display("few shots", total=len(jobs), quiet=not progress) as display:
        display.update(done)
        for event in run_jobs(jobs, results, workers=workers):
            done += event.done
            display.update(done)
    return [
        found
        for name, key in keys.items()
        for found in _load(name, result_file(results, key, jobs[key]))
    ]


def _classify(
    branch: Branch, novel: Pool, other: Pool, episodes: int, folder: Path, report: Report
) -> str:
    """How many queries are right in each episode, as JSON; executed in another process."""
    start = time.process_time()
    rows: list[dict[str, object]] = []
    chosen: dict[int, float] = {}
    gram, size = other.gram(branch)
    for shots in SHOTS:
        drawn = draw_episodes(
            other.labels, max(episodes // 4, 1), shots=shots, ways=WAYS, queries=QUERIES
        )
        right = {C: int(drawn.correct(logistic_answers(gram, drawn, C)).sum()) for C in PENALTIES}
        chosen[shots] = max(PENALTIES, key=lambda C: right[C])
    gram, size = novel.gram(branch)
    for shots in SHOTS:
        drawn = draw_episodes(novel.labels, episodes, shots=shots, ways=WAYS, queries=QUERIES)
        C = chosen[shots]
        for classifier, penalty, answers in (
            (CLASSIFIERS[0], None, nearest_mean_answers(gram, drawn)),
            (CLASSIFIERS[1], C, logistic_answers(gram, drawn, C)),
        ):
            correct = drawn.correct(answers).tolist()
            rows.append(
                {"classifier": classifier, "shots": shots, "penalty": penalty, "correct": correct}
            )
    return to_json({"rows": rows, "size": size, "seconds": time.process_time() - start})


def _load(name: str, file: Path) -> Sequence[FewShotResult]:
    content = read_json(file, "rows", "size", "seconds")
    return [
        FewShotResult(
            name,
            row["classifier"],
            row["shots"],
            row["penalty"],
            tuple(100 * right / (WAYS * QUERIES) for right in row["correct"]),
            content["size"],
            content["seconds"],
        )
        for row in content["rows"]
    ]
