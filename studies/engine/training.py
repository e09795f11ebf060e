"""The runs of a study: ordinary run folders, several at a time, read back with their tags."""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import studies.methods  # a process that gets a trial registers these methods, too
from rootpool.progress import Display
from rootpool.report import Record, RunFolder, read_run
from rootpool.train import SettingsError
from rootpool.train.keys import stable_key
from rootpool.train.study import Event, Trial, run_trials

from .network import Network
from .study import Tags

__all__ = ["Place", "Row", "Run", "StudyTrial", "facts", "fails", "train"]

Row = dict[str, Any]
ERRORS = ("val_error", "val_error5", "train_error")


class StudyTrial(Trial):
    """A run of a study, which may have a method of :mod:`studies.methods`."""

    @property
    def key(self) -> str:
        """As of any trial; with a method of the studies, also of that method's code."""
        if f"'{self.config['model']['method']}'" not in _own_methods():
            return super().key
        return stable_key([super().key, hashlib.sha256(_own_methods().encode()).hexdigest()])


@functools.cache
def _own_methods() -> str:
    return Path(studies.methods.__file__).read_text(encoding="utf-8").replace('"', "'")


@dataclass(frozen=True)
class Run:
    """A finished training: what the study calls it, and its folder."""

    label: str
    tags: Tags
    trial: Trial
    folder: RunFolder

    def records(self, part: str = "history") -> list[Row]:
        """The rows of its history or spectrum, with its name and its tags."""
        return [{"run": self.label, **self.tags, **row} for row in getattr(self.folder, part)]

    @property
    def ending(self) -> Row:
        """Its errors after the last epoch, and the best that was validated; None for all if it diverged."""
        row = {"run": self.label, **self.tags, "diverged": self.folder.diverged is not None}
        row |= {"seconds": self.folder.seconds, "log_condition": self._log_condition}
        validated = [epoch for epoch in self.folder.history if "val_error" in epoch]
        if row["diverged"]:
            values = (*ERRORS, "best_error", "best_error5", "accuracy", "best_accuracy")
            return {**row, **dict.fromkeys(values)}
        last = self.folder.history[-1]
        if "val_error" not in last:
            raise SettingsError(
                f"{self.label} was not validated after its last epoch; the recipe's "
                "trainer.check_val_every_n_epoch must divide its trainer.max_epochs"
            )
        best, best5 = (min(e[key] for e in validated) for key in ERRORS[:2])
        return {
            **row,
            **{key: last.get(key) for key in ERRORS},
            "best_error": best,
            "best_error5": best5,
            "accuracy": 100 - last["val_error"],
            "best_accuracy": 100 - best,
        }

    @property
    def _log_condition(self) -> float | None:
        """Decimal logarithm of the largest eigenvalue over the smallest above rounding, in the last epoch."""
        rows = self.folder.spectrum
        last = [
            math.log10(row["lambda_1"] / row["lambda_min_kept"])
            for row in rows
            if row["epoch"] == rows[-1]["epoch"] and 0 < row["lambda_min_kept"] < math.inf
        ]
        return fmean(last) if last else None


@dataclass(frozen=True)
class Place:
    """Where a study is asked: a network with its runs, or anything else that gives rows of errors.

    Args:
        name: for tables.
        kind: what parts are chosen by.
        rows: a row per run and seed: ``run``, its tags, ``seed``, its errors, and ``failed``.
        network: whose runs they are.
        runs: the runs.
        folder: of the runs.
        about: a sentence: network, data, seeds.
    """

    name: str
    kind: str
    rows: Sequence[Row]
    network: Network | None = None
    runs: Sequence[Run] = ()
    folder: Path = field(default_factory=Path)
    about: str = ""

    @classmethod
    def of_runs(
        cls, network: Network, runs: Sequence[Run], reference: Sequence[Run], limit: float
    ) -> Place:
        """A network with its runs; those fail that diverge or end far above the reference."""
        good = {run.tags["seed"]: run.ending["train_error"] for run in reference}
        rows = [{**row, "failed": fails(row, good, limit)} for row in (r.ending for r in runs)]
        folder = runs[0].folder.folder.parent if runs else Path()
        return cls(network.called, network.kind, rows, network, runs, folder, network.about)

    def having(self, **tags: Any) -> list[Run]:
        """The runs that have these tags."""
        return [run for run in self.runs if tags.items() <= run.tags.items()]

    def records(self, part: str = "history", **tags: Any) -> list[Row]:
        """The rows of the history or spectrum of the runs that have these tags."""
        return [row for run in self.having(**tags) for row in run.records(part)]


def fails(row: Row, good: Mapping[Any, float | None], limit: float) -> bool:
    """Whether a run diverged, or its training error is above that of good runs with its seed by the limit."""
    reached = good.get(row["seed"])
    return row["diverged"] or (reached is not None and row["train_error"] > reached + limit)


def train(trials: Iterable[Trial], folder: Path, workers: int | None = None) -> dict[str, Run]:
    """Train what is not finished yet, with the progress of all; the runs by key."""
    every = list({trial.key: trial for trial in trials}.values())
    # Seed by seed, so that a study that is stopped has compared everything.
    every.sort(key=lambda trial: trial.tags["seed"])
    stages = [first for trial in every if (first := trial.first_stage) is not None]
    known = {trial.key: trial for trial in [*stages, *every]}
    done = dict.fromkeys(known, 0.0)
    if not every:
        return {}
    with Display("training", total=len(known)) as display:

        def on_event(event: Event) -> None:
            trial, record = known[event.key], event.record or {}
            epochs = trial.config["trainer"]["max_epochs"]
            done[event.key] = 1.0 if event.done else (record.get("epoch", 0) + 1) / epochs
            display.update(sum(done.values()), _news(trial, record))

        folders = run_trials(every, folder, workers=workers, on_event=on_event)
    return {
        t.key: Run(t.label, t.tags, t, read_run(f)) for t, f in zip(every, folders, strict=True)
    }


def _news(trial: Trial, record: Mapping[str, Any]) -> str:
    text = f"{trial.label}, seed {trial.tags['seed']}"
    if "epoch" in record:
        text += f", epoch {record['epoch'] + 1}"
    return text + (f": {record['val_error']:.1f} % error" if "val_error" in record else "")


def facts(place: Place) -> Record:
    """What a reader wants to know of a place: network, seeds, and the runs that failed."""
    names = list(dict.fromkeys(row["run"] for row in place.rows))
    counts = sorted({sum(row["run"] == name for row in place.rows) for name in names})
    failed = {
        name: [str(row["seed"]) for row in place.rows if row["run"] == name and row["failed"]]
        for name in names
    }
    found = {"network": place.about, "seeds": " or ".join(map(str, counts))}
    if any(failed.values()):
        listed = (f"{name}: seeds {', '.join(seeds)}" for name, seeds in failed.items() if seeds)
        found["failed, and left out of the comparisons"] = "; ".join(listed)
    return found
