"""Many heads, several seeds each, side by side in processes; results are kept (`rootpool.train.keys`)."""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rootpool.train.features import FeatureCache
from rootpool.train.keys import Job, Report, result_file, run_jobs, stable_key, versions
from studies.methods import learned_values

from .head import Head, predict, train_head

__all__ = ["Examples", "HeadResult", "hold_out", "run_heads"]

TOP = 5  # answers that are kept for each image


@dataclass(frozen=True)
class Examples:
    """Some images of a cache, with labels.

    Args:
        cache: features of all images.
        labels: ``(n,)``, of all images.
        chosen: indices of the images that count.
    """

    cache: FeatureCache
    labels: Tensor
    chosen: Tensor

    @classmethod
    def all(cls, cache: FeatureCache, labels: Tensor) -> Examples:
        """All images of a cache."""
        return cls(cache, labels, torch.arange(len(labels)))

    @property
    def key(self) -> str:
        """A hash of features, labels and choice."""
        digest = hashlib.sha256(self.cache.key.encode())
        for tensor in (self.labels, self.chosen):
            digest.update(tensor.numpy().tobytes())
        return digest.hexdigest()


def hold_out(examples: Examples, part: int = 5, seed: int = 0) -> tuple[Examples, Examples]:
    """Hold out one image in ``part`` of each class, drawn at random: the rest, and those."""
    generator = torch.Generator().manual_seed(seed)
    kept, held = [], []
    for label in examples.labels[examples.chosen].unique():
        members = examples.chosen[examples.labels[examples.chosen] == label]
        members = members[torch.randperm(len(members), generator=generator)]
        count = len(members) // part
        held.append(members[:count])
        kept.append(members[count:])
    cache, labels = examples.cache, examples.labels
    return (
        Examples(cache, labels, torch.cat(kept).sort().values),
        Examples(cache, labels, torch.cat(held).sort().values),
    )


@dataclass(frozen=True)
class HeadResult:
    """The answers of a trained head for the test images.

    Args:
        head: its name.
        seed: of its training.
        seconds: CPU time of training and test.
        loss: of the last epoch; NaN if the training diverged, and the answers are guesses.
        classes: the five most probable classes of each image, ``(n, 5)``.
        probabilities: of these classes, ``(n, 5)``.
        labels: the right classes, ``(n,)``.
        learned: what a learned filter has become, by name.
    """

    head: str
    seed: int
    seconds: float
    loss: float
    classes: NDArray[np.int64]
    probabilities: NDArray[np.float32]
    labels: NDArray[np.int64]
    learned: Mapping[str, float] = field(default_factory=dict)

    @property
    def diverged(self) -> bool:
        """Whether its numbers stopped being finite."""
        return math.isnan(self.loss)

    @property
    def correct(self) -> NDArray[np.bool_]:
        """Which images are classified correctly."""
        return np.asarray(self.classes[:, 0] == self.labels)

    @property
    def accuracy(self) -> float:
        """Per cent of the images that are classified correctly."""
        return float(100 * self.correct.mean())

    @property
    def accuracy5(self) -> float:
        """Per cent of the images whose label is among the first five."""
        return float(100 * (self.classes == self.labels[:, None]).any(1).mean())


def run_heads(
    heads: Mapping[str, Head],
    train: Examples,
    test: Examples,
    classes: int,
    folder: str | os.PathLike[str],
    *,
    seeds: int = 5,
    workers: int | None = None,
    on_progress: Callable[[float, list[HeadResult]], None] = lambda share, results: None,
) -> list[HeadResult]:
    """Train every head with every seed, except those whose results are in ``folder`` already.

    Args:
        heads: by name.
        train: the images to learn from.
        test: the images to measure on.
        classes: how many there are.
        folder: of the results, named by a hash of everything that they depend on.
        seeds: how many.
        workers: processes at a time, with one thread each; None for one per core.
        on_progress: called at the start and after every epoch of any head, with the share of the work that
            is done and the results so far.
    """
    if seeds < 1:
        raise ValueError(f"seeds must be at least 1, got {seeds}")
    folder = Path(folder).absolute()
    # Seed by seed, so that a study that is stopped has compared all heads.
    order = [(name, seed) for seed in range(seeds) for name in heads]
    shared = {"train": train.key, "test": test.key, "classes": classes, "versions": versions()}
    keys = {
        (name, seed): stable_key({**shared, "head": heads[name], "seed": seed})
        for name, seed in order
    }
    jobs = {
        keys[name, seed]: Job(
            f"{name}, seed {seed}",
            partial(_train_and_test, heads[name], seed, train, test, classes),
            result="result.npz",
        )
        for name, seed in order
    }
    epochs = {keys[name, seed]: heads[name].schedule.epochs for name, seed in order}
    files = {which: result_file(folder, key, jobs[key]) for which, key in keys.items()}
    known: dict[tuple[str, int], HeadResult] = {}

    def results() -> list[HeadResult]:
        for which in order:
            if which not in known and files[which].exists():
                known[which] = _load(*which, files[which])
        return [known[which] for which in order if which in known]

    done = {key: epochs[key] * int(files[which].exists()) for which, key in keys.items()}
    on_progress(sum(done.values()) / sum(epochs.values()), results())
    for event in run_jobs(jobs, folder, workers=workers):
        done[event.key] = epochs[event.key] if event.record is None else event.record["epoch"] + 1
        on_progress(sum(done.values()) / sum(epochs.values()), results())
    return results()


def _train_and_test(
    head: Head,
    seed: int,
    train: Examples,
    test: Examples,
    classes: int,
    folder: Path,
    report: Report,
) -> bytes:
    """The answers of a trained head as the content of an NPZ file; executed in another process."""
    start = time.process_time()
    losses: list[float] = []

    def on_epoch(epoch: int, loss: float) -> None:
        losses.append(loss)
        report({"epoch": epoch, "loss": loss})

    top = min(TOP, classes)
    try:
        module = train_head(
            head,
            train.cache,
            train.labels,
            classes,
            seed=seed,
            images=train.chosen,
            on_epoch=on_epoch,
        )
        probabilities, answers = predict(module, test.cache, test.chosen).topk(top, dim=1)
        learned = learned_values(module)
    except (FloatingPointError, torch.linalg.LinAlgError):
        # It has diverged, which is a result: from there on it guesses, the first classes for every image.
        losses.append(math.nan)
        answers = torch.arange(top).expand(len(test.chosen), top)
        probabilities = torch.full(answers.shape, 1 / classes)
        learned = {}
    content = io.BytesIO()
    np.savez(
        content,
        seconds=np.array(time.process_time() - start),
        loss=np.array(losses[-1]),
        classes=answers.numpy(),
        probabilities=probabilities.numpy(),
        labels=test.labels[test.chosen].numpy(),
        learned=np.array(json.dumps(learned)),
    )
    return content.getvalue()


def _load(name: str, seed: int, path: Path) -> HeadResult:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return HeadResult(
                name,
                seed,
                float(arrays["seconds"]),
                float(arrays["loss"]),
                arrays["classes"],
                arrays["probabilities"],
                arrays["labels"],
                json.loads(str(arrays["learned"])),
            )
    except (ValueError, LookupError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{path} is corrupt ({error}); delete it and it will be computed again"
        ) from error
