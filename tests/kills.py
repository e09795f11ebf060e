"""kill -9 at random moments of a job, which is then started again: is its end the same to the bit?

The job caches features of images and trains a head on them, and then trains a network, both with a
checkpoint every other step. `python tests/kills.py` kills it 20 times and writes what happened to a JSON
file.
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import os
import random
import shutil
import signal
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from images import make_image_tree
from rootpool.files import write_atomically
from rootpool.machine import machine
from rootpool.train.checkpoints import AtomicCheckpointIO
from rootpool.train.features import extract
from rootpool.train.module import PooledTraining
from small_runs import assert_same_state, final, run

# What can be aimed at, and the function that does it.
ACTIVITIES: dict[str, tuple[Any, str]] = {
    "writing a checkpoint": (AtomicCheckpointIO, "save_checkpoint"),
    "computing features": (extract.Extraction, "features"),
    "a training step": (PooledTraining, "optimizer_step"),  # forward, backward and update
    "writing features": (extract.GrowingArray, "write"),
    "validation": (PooledTraining, "validation_step"),
}
BETWEEN = "something else"


@dataclass(frozen=True)
class Aim:
    """A moment: some part of its shortest duration after an activity began for the k-th time."""

    activity: str
    occurrence: int
    part: float


@dataclass(frozen=True)
class Kill:
    """What a kill met, and what became of it."""

    aim: Aim
    doing: str
    parts_left: int
    equal: bool
    problem: str


# --------------------------------------------------------------------------------------------------
# The job, in a process of its own


def head(data: Path, folder: Path) -> dict[str, Any]:
    """The settings of a head on cached features of two stages."""
    return {
        "model": {
            "backbone": "test_resnet",
            "branches": [
                {"stage": "layer1", "reduction": 4},
                {"stage": "average", "method": "gap"},
            ],
            "length": 2.0,
            "freeze": "backbone",
        },
        "data": {
            "root": str(data),
            "resize": 32,
            "crop": 32,
            "cache": str(folder / "cache"),
            "views": 2,
            "batch_size": 16,
            "workers": 0,
        },
        "trainer": {"max_epochs": 2, "accelerator": "cpu", "num_sanity_val_steps": 0},
        "save_every": 2,
    }


def job(data: Path, folder: Path) -> None:
    """Do what is left to do in a folder."""
    run(folder / "head", resume=True, config=head(data, folder))
    run(folder / "run", resume=True)


def observed_job(data: Path, folder: Path, aim: Aim | None, pipe: Any) -> None:
    """The job, which notes what it is doing, and tells when it comes to the aim."""
    warnings.simplefilter("ignore")
    durations: dict[str, list[float]] = {name: [] for name in ACTIVITIES}
    note = os.open(folder / "doing", os.O_WRONLY | os.O_CREAT)

    def observed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **options: Any) -> Any:
            os.pwrite(note, name.ljust(40).encode(), 0)
            if aim is not None and (name, len(durations[name])) == (aim.activity, aim.occurrence):
                pipe.send("now")
            started = time.perf_counter()
            result = function(*args, **options)
            durations[name].append(time.perf_counter() - started)
            os.pwrite(note, BETWEEN.ljust(40).encode(), 0)
            return result

        return wrapper

    for name, (owner, attribute) in ACTIVITIES.items():
        setattr(owner, attribute, observed(name, getattr(owner, attribute)))
    job(data, folder)
    pipe.send(durations)


# --------------------------------------------------------------------------------------------------
# The killer


@contextmanager
def started(data: Path, folder: Path, aim: Aim | None = None) -> Iterator[tuple[Any, Any]]:
    folder.mkdir(parents=True, exist_ok=True)
    # A server that has imported everything forks the jobs: nobody waits for torch 40 times.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["kills"])
    pipe, far_end = context.Pipe()
    process = context.Process(target=observed_job, args=(data, folder, aim, far_end))
    process.start()
    far_end.close()
    try:
        yield process, pipe
    finally:
        process.kill()
        process.join()


def finish(data: Path, folder: Path) -> dict[str, list[float]]:
    """Let the job come to its end; how long each activity took."""
    with started(data, folder) as (process, pipe):
        durations: dict[str, list[float]] = pipe.recv()  # EOFError if it dies
        process.join()
        assert process.exitcode == 0
    return durations


def draw_aims(durations: dict[str, list[float]], count: int, seed: int) -> list[Aim]:
    """Every activity in turn, at a random occurrence and a random moment of it."""
    generator = random.Random(seed)
    names = [list(ACTIVITIES)[k % len(ACTIVITIES)] for k in range(count)]
    return [Aim(n, generator.randrange(len(durations[n])), generator.random()) for n in names]


def was_killed(data: Path, folder: Path, aim: Aim, duration: float) -> bool:
    with started(data, folder, aim) as (process, pipe):
        assert pipe.recv() == "now"
        time.sleep(aim.part * duration)
        process.kill()
        process.join()
        return bool(process.exitcode == -signal.SIGKILL)


def kill_and_resume(
    data: Path, folder: Path, reference: Path, aim: Aim, durations: dict[str, list[float]]
) -> Kill:
    while not was_killed(data, folder, aim, min(durations[aim.activity])):
        shutil.rmtree(folder)  # on a busy machine the kill may come after the end
    doing = (folder / "doing").read_text().strip()
    parts = len(list(folder.rglob(".*.part")))
    finish(data, folder)
    problem = difference(folder, reference)
    return Kill(aim, doing, parts, problem == "", problem)


def difference(folder: Path, reference: Path) -> str:
    """What is not the same after two jobs; empty if nothing."""
    for name in ("head", "run"):
        try:
            assert_same_state(final(folder / name), final(reference / name))
        except AssertionError as error:
            return f"{name}: {error}"
    caches = [sorted((f / "cache").rglob("*.npy")) for f in (folder, reference)]
    if [path.read_bytes() for path in caches[0]] != [path.read_bytes() for path in caches[1]]:
        return "the cache has other features"
    if left := list(folder.rglob(".*.part")):
        return f"left behind: {left}"
    return ""


def kill_often(count: int, seed: int, folder: Path) -> Iterator[Kill]:
    """Kill as many jobs, and finish each."""
    data = make_image_tree(folder / "data", classes=3, per_class=16, size=(20, 20))
    durations = finish(data, folder / "reference")
    for k, aim in enumerate(draw_aims(durations, count, seed)):
        yield kill_and_resume(data, folder / str(k), folder / "reference", aim, durations)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("runs/kills.json"))
    arguments = parser.parse_args()
    begin = time.perf_counter()
    kills = []
    with tempfile.TemporaryDirectory() as folder:
        for kill in kill_often(arguments.kills, arguments.seed, Path(folder)):
            kills.append(kill)
            outcome = "same bits" if kill.equal else kill.problem
            left = f", {kill.parts_left} unfinished files" if kill.parts_left else ""
            print(f"killed in {kill.doing}{left}; resumed: {outcome}", flush=True)
    equal = sum(kill.equal for kill in kills)
    print(f"{equal} of {len(kills)} killed jobs ended with the bits of the uninterrupted one")
    record = {
        "machine": machine(),
        "seed": arguments.seed,
        "tried": len(kills),
        "equal": equal,
        "seconds": round(time.perf_counter() - begin),
        "kills": [asdict(kill) for kill in kills],
    }
    write_atomically(arguments.output, json.dumps(record, indent=1) + "\n")
    return int(equal < len(kills))


if __name__ == "__main__":
    raise SystemExit(main())
