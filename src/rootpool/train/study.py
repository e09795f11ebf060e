"""Many trainings side by side: each in a process of its own, each in a run folder of its own.

The first stage of hybrid runs with the same start is trained once and shared: each hybrid run reads it
from a file, so no tensor of one run is seen by another.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import lightning.pytorch as pl

from .config import merge
from .jobs import Event, Job, Report, result_file, run_jobs, stable_key, versions
from .nonfinite import NonFiniteError
from .run import LAST, RESULT, fill_cache, prepare
from .settings import HybridSchedule, as_yaml, resolve
from .settings import Settings as EffectiveSettings

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
        """A hash of the effective configuration, of torch's version and of the code that decides numbers."""
        return stable_key({"settings": as_yaml(resolve(self.config)), "versions": versions()})

    @property
    def first_stage(self) -> Trial | None:
        """The run up to the switch of a hybrid one, or None."""
        if self.config.get("hybrid") is None:
            return None
        schedule = HybridSchedule(**self.config["hybrid"])
        start = {"method": schedule.start, "method_options": None}
        config = merge(
            {k: v for k, v in self.config.items() if k != "hybrid"},
            {"model": start, "trainer": {"max_epochs": schedule.switch_epoch}},
        )
        return Trial(f"{schedule.start}, first {schedule.switch_epoch} epochs", config, self.tags)


def run_trials(
    trials: Sequence[Trial],
    folder: str | Path,
    *,
    workers: int | None = None,
    on_event: Callable[[Event], None] = lambda event: None,
) -> list[Path]:
    """Train what is not finished yet, several at a time; return the run folders in the order of the trials.

    :func:`rootpool.report.read_run` reads such a folder. A training whose numbers stop being finite is a
    result, too: its records end there, and ``diverged`` says in which epoch and step.

    Args:
        trials: what to run.
        folder: holds the run folders, each named by the key of its trial.
        workers: runs at a time, with one thread each; None for one per core.
        on_event: called in this process, for every epoch (with its record) and every result.

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
    # Those with most stages first: their features are all that others need.
    left.sort(key=lambda settings: -len(settings.model.branches or ()))
    for settings in {_images(settings): settings for settings in left}.values():
        fill_cache(settings)  # once, on all cores, and not in each of the processes
    for event in run_jobs(jobs, folder, workers=workers):
        on_event(event)
    return [folder / trial.key for trial in trials]


def _images(settings: EffectiveSettings) -> str:
    """What the features of frozen stages depend on, or more."""
    model = settings.model
    stages = sorted({branch.stage for branch in model.branches or ()})
    network = [model.backbone, model.backbone_options, model.freeze, model.weights, stages]
    return stable_key([network, asdict(settings.data)])


def _job(trial: Trial, first: Trial | None) -> Job:
    start = None if first is None else first.key
    return Job(
        trial.label,
        partial(_train, trial, start),
        result=RESULT,
        needs=() if start is None else (start,),
    )


def _train(trial: Trial, first: str | None, folder: Path, report: Report) -> None:
    """Train one trial to its end, from its own last checkpoint or else from the one of its first stage."""
    run = prepare(
        resolve(trial.config),
        folder,
        resume=True,
        progress=False,
        callbacks=[_Reporter(report)],
    )
    beginning = None if first is None else folder.parent / first / LAST
    with contextlib.suppress(NonFiniteError):  # a result, which the folder holds
        run.fit(resume_from=run.last if run.last.is_file() else beginning)


class _Reporter(pl.Callback):
    """Reports the metrics of every epoch."""

    def __init__(self, report: Report) -> None:
        self.report = report

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        metrics = {name: float(v) for name, v in trainer.callback_metrics.items() if v.numel() == 1}
        self.report({"epoch": trainer.current_epoch, **metrics})
