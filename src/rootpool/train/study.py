"""Many runs side by side: each in a process of one thread, each in a run folder of its own.

A trial whose folder holds a result is finished; so the same call, made again after any interruption, trains
what is left. The first stage of hybrid runs with the same start is trained once and shared, also with the run
that has this start to its end: each reads it from a file, so no tensor of one run is seen by another.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from rootpool.machine import usable_cores
from rootpool.report.records import read_records
from rootpool.report.runs import HISTORY

from .config import merge
from .keys import stable_key, versions
from .nonfinite import NonFiniteError
from .run import LAST, RESULT, fill_cache, prepare
from .settings import HybridSchedule, as_yaml, resolve
from .settings import Settings as EffectiveSettings

__all__ = ["Event", "Trial", "run_trials"]

Settings = Mapping[str, Any]

LOOK_EVERY = 1.0  # seconds between two looks for new epochs


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

    def begins_with(self, first: Trial) -> bool:
        """Whether this run is a first stage that goes on to its own last epoch."""
        epochs = first.config["trainer"]["max_epochs"]
        if (self.config.get("trainer", {}).get("max_epochs") or 0) <= epochs:
            return False
        shortened = merge(self.config, {"trainer": {"max_epochs": epochs}})
        return replace(self, config=shortened).key == first.key


@dataclass(frozen=True)
class Event:
    """News of a trial: the record of an epoch, or that its result is there."""

    key: str
    record: Mapping[str, Any] | None = None
    done: bool = False


def run_trials(
    trials: Sequence[Trial],
    folder: str | Path,
    *,
    workers: int | None = None,
    on_event: Callable[[Event], None] = lambda event: None,
) -> list[Path]:
    """Train what is not finished yet, several at a time; return the run folders in the order of the trials.

    :func:`rootpool.report.read_run` reads such a folder. A training whose numbers stop being finite is a
    result, too: its records end there, and ``diverged`` says in which epoch and step. When a training
    fails, or the call is interrupted, all processes end at once; checkpoints and results stay.

    Args:
        trials: what to run; started in this order, each first stage before the first run that needs it.
        folder: holds the run folders, each named by the key of its trial.
        workers: runs at a time, with one thread each; None for one per core.
        on_event: called in this process, for every epoch (with its record) and every result.

    Raises:
        SettingsError: a configuration cannot be used; nothing has been run then.
        ChildProcessError: the process of a run died.
    """
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}")
    folder = Path(folder).absolute()
    left: dict[str, tuple[Trial, str | None]] = {}  # and the key of the first stage
    stages = {s.key: s for trial in trials if (s := trial.first_stage) is not None}
    for trial in trials:
        same = (key for key, first in stages.items() if trial.begins_with(first))
        own = trial.first_stage
        first = next(same, None) if own is None else own.key
        if first is not None:
            left.setdefault(first, (stages[first], None))
        left.setdefault(trial.key, (trial, first))
    for key in [key for key in left if (folder / key / RESULT).is_file()]:
        del left[key]
        on_event(Event(key, done=True))
    _fill_caches([resolve(trial.config) for trial, _ in left.values()])
    for event in _train_all(left, folder, workers or usable_cores()):
        on_event(event)
    return [folder / trial.key for trial in trials]


def _fill_caches(settings: Sequence[EffectiveSettings]) -> None:
    """Compute what runs cache once, on all cores, and not in each of the processes."""
    # Those with most stages first: their features are all that others need.
    ordered = sorted(settings, key=lambda each: -len(each.model.branches or ()))
    for each in {_images(each): each for each in ordered}.values():
        fill_cache(each)


def _images(settings: EffectiveSettings) -> str:
    """What the features of frozen stages depend on, or more."""
    model = settings.model
    stages = sorted({branch.stage for branch in model.branches or ()})
    network = [model.backbone, model.backbone_options, model.freeze, model.weights, stages]
    return stable_key([network, asdict(settings.data)])


# --------------------------------------------------------------------------------------------------
# Processes


def _train_all(
    left: dict[str, tuple[Trial, str | None]], folder: Path, workers: int
) -> Iterator[Event]:
    """Train the runs, each after its first stage, and yield what happens."""
    running: dict[Future[None], tuple[str, Trial]] = {}
    told: Counter[str] = Counter()  # epochs that were reported
    others = set(multiprocessing.active_children())
    # Spawned: a forked copy of a process with threads, such as torch's, can hang.
    executor = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _begin)
    try:
        while left or running:
            busy = left.keys() | {key for key, _ in running.values()}
            ready = [key for key, (_, first) in left.items() if first not in busy]
            for key in ready[: workers - len(running)]:
                trial, first = left.pop(key)
                running[executor.submit(_train, trial, key, first, folder)] = key, trial
            done, _ = wait(running, LOOK_EVERY, FIRST_COMPLETED)
            for key, _ in running.values():
                path = folder / key / HISTORY
                for record in read_records(path)[told[key] :] if path.is_file() else []:
                    told[key] += 1
                    yield Event(key, record)
            for future in done:
                future.result()
                yield Event(running.pop(future)[0], done=True)
    except BrokenProcessPool:
        names = " or ".join(repr(trial.label) for _, trial in running.values())
        raise ChildProcessError(
            f"the process that trained {names} was killed: often the memory was full. Run the same command "
            "again, with fewer workers if it happens again; what is finished is kept"
        ) from None
    finally:
        # At once, as a power cut would: a run folder only has files that are whole.
        for process in set(multiprocessing.active_children()) - others:
            process.kill()
        executor.shutdown(cancel_futures=True)


def _begin() -> None:
    """Prepare a process for runs."""
    import torch

    torch.set_num_threads(1)  # the other cores have processes of their own
    threading.Thread(target=_end_with_starter, daemon=True).start()
    # Ctrl-C in a terminal reaches every process; the one that started this one answers it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Processes that load images start as the system does it: spawned like this one, each of them would
    # import everything again.
    multiprocessing.set_start_method(None, force=True)


def _end_with_starter() -> None:
    """End this process when the one that started it is gone, even if that one was killed."""
    starter = multiprocessing.parent_process()
    if starter is not None:
        starter.join()
        os._exit(1)


def _train(trial: Trial, key: str, first: str | None, folder: Path) -> None:
    """Train one trial to its end, from its own last checkpoint or else from the one of its first stage."""
    try:
        training = prepare(resolve(trial.config), folder / key, resume=True, progress=False)
        start = None if first is None else folder / first / LAST
        with contextlib.suppress(NonFiniteError):  # a result, which the folder holds
            training.fit(resume_from=training.last if training.last.is_file() else start)
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # its class cannot be made again from its own arguments
            text = "".join(traceback.format_exception(error))
            raise RuntimeError(f"{type(error).__name__}: {error}\n{text}") from None
        raise
