"""Many runs side by side: each in a process of its own, each result kept under the hash of its settings.

A study that is killed goes on where it was; one with other settings never finds the results of these.
The first stage of hybrid runs with the same start is trained once and shared: each hybrid run reads it
from a file, so no tensor of one run is seen by another.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import multiprocessing
import os
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch

import rootpool
from rootpool.analysis.records import read_json
from rootpool.files import write_atomically

from .failures import explained_deaths
from .run import monitors, prepare
from .settings import as_yaml, hybrid_schedule, merge, resolve

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
        """A hash of everything that the result depends on."""
        text = f"{rootpool.__version__} {torch.__version__}\n{as_yaml(resolve(self.config))}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def first_stage(self) -> Trial | None:
        """The run up to the switch of a hybrid one, or None."""
        schedule = hybrid_schedule(resolve(self.config))
        if schedule is None:
            return None
        start = {"method": schedule.start, "method_options": None}
        config = merge(
            {k: v for k, v in self.config.items() if k != "hybrid"},
            {"model": start, "trainer": {"max_epochs": schedule.switch_epoch}},
        )
        return Trial(f"{schedule.start}, first {schedule.switch_epoch} epochs", config, self.tags)


@dataclass(frozen=True)
class Event:
    """Something that happened to a trial: an epoch ended (with its record), or it has a result."""

    key: str
    record: dict[str, Any] | None
    done: bool = False


class _Reporter(pl.Callback):
    def __init__(self, key: str, events: Any) -> None:
        self.key = key
        self.events = events

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        metrics = {name: float(v) for name, v in trainer.callback_metrics.items() if v.numel() == 1}
        self.events.put(Event(self.key, {"epoch": trainer.current_epoch, **metrics}))


def _run(trial: Trial, key: str, first: str | None, folder: Path, events: Any) -> None:
    """Train one trial to its end; executed in a worker process.

    The keys come from the process that started it: jsonargparse may read 2 as 2.0 in one and not in the
    other, where a setting may be either.
    """
    torch.set_num_threads(1)
    # The processes that load images start as the system does it: spawned like this one, each of them
    # would import all of Lightning first.
    multiprocessing.set_start_method(None, force=True)
    started = time.perf_counter()
    output = folder / key
    run = prepare(
        resolve(trial.config),
        output,
        resume=True,
        progress=False,
        callbacks=[_Reporter(key, events)],
    )
    beginning = None if first is None else folder / first / run.last.name
    run.fit(resume_from=run.last if run.last.is_file() else beginning)
    result = {
        "label": trial.label,
        **trial.tags,
        "seconds": round(time.perf_counter() - started, 2),
        "curves": run.module.history,
        "spectrum": [record for monitor in monitors(run.trainer) for record in monitor.records],
    }
    text = json.dumps(result, indent=1)
    write_atomically(output / "result.json", text)


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
        folder: where results are kept, a folder each.
        workers: runs at a time, one thread each; None for one a core.
        on_event: called in this process, in its own thread, for each epoch and each result.
    """
    folder = Path(folder).absolute()
    firsts = {first.key: first for trial in trials if (first := trial.first_stage) is not None}
    every = {**firsts, **{trial.key: trial for trial in trials}}
    waiting = {key: t for key, t in every.items() if not (folder / key / "result.json").is_file()}
    for key in every.keys() - waiting.keys():
        on_event(Event(key, None, done=True))
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, contextlib.ExitStack() as stack:
        events = manager.Queue()
        stack.enter_context(_listen(events, on_event))
        pool = stack.enter_context(
            ProcessPoolExecutor(workers or os.cpu_count() or 1, mp_context=context)
        )
        stack.enter_context(explained_deaths())
        _schedule(waiting, folder, events, pool)
    keys = ("label", "seconds", "curves", "spectrum")
    results = (read_json(folder / trial.key / "result.json", *keys) for trial in trials)
    # Another trial of the same settings may have made it, under another name.
    named = ({"label": trial.label, **trial.tags} for trial in trials)
    return [result | name for result, name in zip(results, named, strict=True)]


def _schedule(
    waiting: dict[str, Trial], folder: Path, events: Any, pool: ProcessPoolExecutor
) -> None:
    """Submit each trial as soon as its first stage is there, first stages before all."""
    running: dict[Future[None], str] = {}
    remaining = dict(waiting)
    stages = {key: trial.first_stage for key, trial in waiting.items()}
    firsts = {key: None if stage is None else stage.key for key, stage in stages.items()}
    try:
        while remaining or running:
            for key, trial in list(remaining.items()):
                first = firsts[key]
                if first is None or (folder / first / "result.json").is_file():
                    running[pool.submit(_run, trial, key, first, folder, events)] = key
                    del remaining[key]
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                key = running.pop(future)
                future.result()
                events.put(Event(key, None, done=True))
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise


@contextlib.contextmanager
def _listen(events: Any, on_event: Callable[[Event], None]) -> Any:
    stop = threading.Event()

    def loop() -> None:
        while not (stop.is_set() and events.empty()):
            with contextlib.suppress(queue.Empty):
                on_event(events.get(timeout=0.2))

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
