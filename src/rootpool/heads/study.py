"""Many heads, several seeds each, side by side in processes; what is finished is kept."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import time
import zipfile
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import rootpool
from rootpool.files import write_atomically
from rootpool.train.failures import explained_deaths

from .cache import FeatureCache
from .head import Head, predict, train_head

__all__ = ["Examples", "HeadResult", "hold_out", "run_heads"]

TOP = 5


@dataclass(frozen=True)
class Examples:
    """Some images of a cache and the labels of all.

    Args:
        cache: features of all images.
        labels: ``(n,)``, of all images.
        chosen: indices of those that count.
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
        """A hash of files, labels and choice."""
        digest = hashlib.sha256()
        for array in self.cache.maps.values():
            digest.update(str(Path(array.filename or "").parent.name).encode())
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
    """What a trained head says about the test images.

    Args:
        head: its name.
        seed: of its training.
        seconds: of one core, for training and test.
        loss: of the last epoch.
        classes: the five most probable classes of each image, ``(n, 5)``.
        probabilities: theirs, ``(n, 5)``.
        labels: the right ones, ``(n,)``.
    """

    head: str
    seed: int
    seconds: float
    loss: float
    classes: NDArray[np.int64]
    probabilities: NDArray[np.float32]
    labels: NDArray[np.int64]

    @property
    def correct(self) -> NDArray[np.bool_]:
        """Which images are right."""
        return np.asarray(self.classes[:, 0] == self.labels)

    @property
    def accuracy(self) -> float:
        """Per cent of the images."""
        return float(100 * self.correct.mean())

    @property
    def accuracy5(self) -> float:
        """Per cent of the images whose label is among the first five."""
        return float(100 * (self.classes == self.labels[:, None]).any(1).mean())


@dataclass(frozen=True)
class _Job:
    head: Head
    seed: int
    train: Examples
    test: Examples
    classes: int

    @property
    def key(self) -> str:
        about = [rootpool.__version__, torch.__version__, repr(self.head), self.seed]
        text = json.dumps([*about, self.train.key, self.test.key])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


# The number of finished epochs of all workers, which each of them gets at its start.
_epochs: Any = None


def _start_worker(epochs: Any) -> None:
    global _epochs
    _epochs = epochs
    torch.set_num_threads(1)  # each process has its own core


def _run(job: _Job, path: Path) -> None:
    """Train and test a head; the result is in the file, whole or not at all."""
    start = time.process_time()
    losses: list[float] = []

    def on_epoch(epoch: int, loss: float) -> None:
        losses.append(loss)
        with _epochs.get_lock():
            _epochs.value += 1

    module = train_head(
        job.head,
        job.train.cache,
        job.train.labels,
        job.classes,
        seed=job.seed,
        images=job.train.chosen,
        on_epoch=on_epoch,
    )
    top = min(TOP, job.classes)
    probabilities, classes = predict(module, job.test.cache, job.test.chosen).topk(top, dim=1)
    arrays: dict[str, Any] = {
        "seconds": np.array(time.process_time() - start),
        "loss": np.array(losses[-1]),
        "classes": classes.numpy(),
        "probabilities": probabilities.numpy(),
        "labels": job.test.labels[job.test.chosen].numpy(),
    }
    write_atomically(path, lambda file: np.savez(file, **arrays))


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
    """Train every head with every seed, but for those whose results are in ``folder`` already.

    Args:
        heads: by name.
        train: what to learn from.
        test: what to measure on.
        classes: how many there are.
        folder: of the results; one file for each head and seed, named by a hash of all it depends on.
        seeds: how many.
        workers: processes at a time, of one thread each; None for one a core.
        on_progress: called every now and then with the share of the work that is done, and the results.
    """
    # Seed by seed, so that a study that is stopped has compared all heads.
    jobs = {
        (name, seed): _Job(head, seed, train, test, classes)
        for seed in range(seeds)
        for name, head in heads.items()
    }
    paths = {which: Path(folder) / f"{job.key}.npz" for which, job in jobs.items()}
    waiting = {which: job for which, job in jobs.items() if not paths[which].exists()}
    results = _Results(paths)
    total = sum(job.head.schedule.epochs for job in jobs.values())
    left = sum(job.head.schedule.epochs for job in waiting.values())
    on_progress(1 - left / total, results.read())
    if waiting:
        context = multiprocessing.get_context("spawn")
        epochs = context.Value("i", total - left)
        with ProcessPoolExecutor(
            min(workers or os.cpu_count() or 1, len(waiting)), context, _start_worker, (epochs,)
        ) as pool:
            running = {pool.submit(_run, job, paths[which]) for which, job in waiting.items()}
            with explained_deaths():
                _wait_for(running, lambda: on_progress(epochs.value / total, results.read()))
    return results.read()


class _Results:
    """The results that are there; each file is read once."""

    def __init__(self, paths: Mapping[tuple[str, int], Path]) -> None:
        self.paths = paths
        self.known: dict[tuple[str, int], HeadResult] = {}

    def read(self) -> list[HeadResult]:
        for which, path in self.paths.items():
            if which not in self.known and path.exists():
                self.known[which] = _load(*which, path)
        return [self.known[which] for which in self.paths if which in self.known]


def _wait_for(running: set[Future[None]], report: Callable[[], None]) -> None:
    try:
        while running:
            done, running = wait(running, timeout=1, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()
            report()
    except BaseException:
        for future in running:
            future.cancel()
        raise


def _load(name: str, seed: int, path: Path) -> HeadResult:
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > path.stat().st_size:
                raise ValueError("it claims more bytes than it has")
        with np.load(path, allow_pickle=False) as arrays:
            return HeadResult(
                name,
                seed,
                float(arrays["seconds"]),
                float(arrays["loss"]),
                arrays["classes"],
                arrays["probabilities"],
                arrays["labels"],
            )
    except (ValueError, LookupError, TypeError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is damaged ({error}); remove it, and it is made anew") from error
