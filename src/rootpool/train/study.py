"""Many trainings side by side: each in a process of its own, each result kept (:mod:`rootpool.jobs`).

The first stage of hybrid runs with the same start is trained once and shared: each hybrid run reads it
from a file, so no tensor of one run is seen by another.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from jsonargparse import Namespace

from rootpool.analysis.records import read_json, to_json
from rootpool.jobs import Event, Job, Report, result_file, run_jobs, stable_key, versions
from rootpool.nn import Method, resolve_pool
from rootpool.recipes import merge

from .hybrid import HybridSchedule
from .nonfinite import NonFiniteError
from .run import LAST, Run, fill_cache, missed_images, monitors, prepare
from .settings import resolve

__all__ = ["Event", "Trial", "run_trials"]

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Trial:
    """One run of a study.

    Args:
        label: what tables and curves call it.
        config: its configuration, as for `settings.resolve`.
        tags: what the records carry along, such as method, protocol and seed.
    """

    label: str
    config: Settings
    tags: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """A hash of the configuration as it was given, and of the versions of rootpool and torch."""
        return stable_key({"config": self.config, "versions": versions()})

    @property
    def first_stage(self) -> Trial | None:
        """The run up to the switch of a hybrid one, or None.

        None too if the last stage learns a filter: its parameters are in the optimizer from the start.
        """
        if self.config.get("hybrid") is None or self._learns:
            return None
        schedule = HybridSchedule(**self.config["hybrid"])
        start = {"method": schedule.start, "method_options": None}
        config = merge(
            {k: v for k, v in self.config.items() if k != "hybrid"},
            {"model": start, "trainer": {"max_epochs": schedule.switch_epoch}},
        )
        return Trial(f"{schedule.start}, first {schedule.switch_epoch} epochs", config, self.tags)

    @property
    def _learns(self) -> bool:
        model = self.config.get("model", {})
        method = resolve_pool(model.get("method", "exact"), **(model.get("method_options") or {}))
        return isinstance(method, Method) and bool(method.initial_parameters())


def run_trials(
    trials: Sequence[Trial],
    folder: str | Path,
    *,
    workers: int | None = None,
    on_event: Callable[[Event], None] = lambda event: None,
) -> list[dict[str, Any]]:
    """Run what has no result yet, several at a time, and return the results in the order of the trials.

    Args:
        trials: what to run.
        folder: where results are kept, one folder per run.
        workers: runs at a time, with one thread each; None for one per core.
        on_event: called in this process, for every epoch (with its record) and every result.

    ``images`` of a result is how many were validated last, and ``missed`` which of them were not recognised;
    older results lack both. A training whose numbers stop being finite has a result, too: its records
    up to there, and ``diverged``, which says in which epoch and step.

    Raises:
        SettingsError: a configuration cannot be used; nothing has been run then.
        ChildProcessError: the process of a run died.
    """
    folder = Path(folder).absolute()
    stages = {trial.key: trial.first_stage for trial in trials}
    firsts = {first.key: first for first in stages.values() if first is not None}
    runs = {trial.key: trial for trial in trials}
    jobs: dict[str, Job] = {}
    for key, trial in runs.items():
        first = stages[key]
        if first is not None:
            jobs.setdefault(first.key, _job(first, None))
        jobs.setdefault(key, _job(trial, first))
    left = [
        resolve(trial.config)
        for key, trial in (firsts | runs).items()
        if not result_file(folder, key, jobs[key]).is_file()
    ]
    for settings in {_images(settings): settings for settings in left}.values():
        fill_cache(settings)  # once, on all cores, and not in each of the processes
    for event in run_jobs(jobs, folder, workers=workers):
        on_event(event)
    keys = ("label", "seconds", "curves", "spectrum", "classes", "diverged")
    files = (result_file(folder, key, jobs[key]) for key in (trial.key for trial in trials))
    # Another trial of the same settings may have made a result, under another name.
    return [
        read_json(file, *keys) | {"label": trial.label, **trial.tags}
        for file, trial in zip(files, trials, strict=True)
    ]


def _images(settings: Namespace) -> str:
    """What the features of frozen stages depend on, or more."""
    model = settings.model
    network = [model.backbone, model.backbone_options, model.freeze, model.weights]
    return stable_key([network, settings.data.as_dict()])


def _job(trial: Trial, first: Trial | None) -> Job:
    start = None if first is None else first.key
    return Job(trial.label, partial(_train, trial, start), needs=() if start is None else (start,))


def _train(trial: Trial, first: str | None, folder: Path, report: Report) -> str:
    """Train one trial to its end, from its own last checkpoint or else from that of its first stage."""
    started = time.perf_counter()
    run = prepare(
        resolve(trial.config),
        folder,
        resume=True,
        progress=False,
        callbacks=[_Reporter(report)],
    )
    beginning = None if first is None else folder.parent / first / LAST
    diverged = _fit(run, run.last if run.last.is_file() else beginning)
    result = {
        "label": trial.label,
        **trial.tags,
        "seconds": round(time.perf_counter() - started, 2),
        "curves": run.module.history,
        "spectrum": [record for monitor in monitors(run.trainer) for record in monitor.records],
        "classes": len(run.data.splits.classes),
        "diverged": diverged,
        **missed_images(run.trainer).state_dict(),
    }
    return to_json(result)


def _fit(run: Run, beginning: Path | None) -> dict[str, int] | None:
    """Train; where numbers stopped being finite, if they did: in a study that is a result."""
    try:
        run.fit(resume_from=beginning)
    except NonFiniteError:
        return {"epoch": run.trainer.current_epoch, "step": run.trainer.global_step}
    return None


class _Reporter(pl.Callback):
    """Reports the metrics of every epoch."""

    def __init__(self, report: Report) -> None:
        self.report = report

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        metrics = {name: float(v) for name, v in trainer.callback_metrics.items() if v.numel() == 1}
        self.report({"epoch": trainer.current_epoch, **metrics})
