"""kill -9 at random moments of a job, which is then started again: is its end the same to the bit?

The job caches features of images and trains a head on them, with a checkpoint every other step. Half of the
kills wait for a file that is being written.
"""

import multiprocessing
import random
import signal
import time
import warnings
from pathlib import Path

from images import make_image_tree
from small_runs import assert_same_state, final, run

BRANCHES = [{"stage": "layer1", "reduction": 4}, {"stage": "average", "method": "gap"}]
HEAD = {
    "model": {"backbone": "test_resnet", "branches": BRANCHES, "length": 2.0, "freeze": "backbone"},
    "data": {"resize": 32, "crop": 32, "views": 2, "batch_size": 16, "workers": 0},
    "trainer": {"max_epochs": 2, "accelerator": "cpu", "num_sanity_val_steps": 0},
    "save_every": 2,
}


def job(data: Path, folder: Path) -> None:
    """Do what is left to do in a folder."""
    warnings.simplefilter("ignore")
    (folder / "begun").touch()
    places = {"root": str(data), "cache": str(folder / "cache")}
    run(folder / "head", resume=True, config={**HEAD, "data": {**HEAD["data"], **places}})


def unfinished(folder: Path) -> list[Path]:
    return list(folder.glob(".*.part")) + list(folder.glob("*/.*.part"))


def start(data: Path, folder: Path) -> multiprocessing.Process:
    """The job in a process of its own, forked by a server that has imported everything."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "begun").unlink(missing_ok=True)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["rootpool.train.run", "pytest", "scipy.io"])
    process = context.Process(target=job, args=(data, folder))
    process.start()
    while process.is_alive() and not (folder / "begun").exists():
        time.sleep(0.001)
    return process


def finish(data: Path, folder: Path) -> float:
    """Let the job come to its end; the seconds that it took."""
    process, begin = start(data, folder), time.perf_counter()
    process.join()
    assert process.exitcode == 0
    return time.perf_counter() - begin


def kill(data: Path, folder: Path, seconds: float, *, writing: bool) -> str:
    """Kill the job after some seconds, or when it writes a file after them; what it was doing."""
    process = start(data, folder)
    time.sleep(seconds)
    while writing and process.is_alive() and not unfinished(folder):
        pass
    process.kill()
    process.join()
    if process.exitcode != -signal.SIGKILL:
        return "nothing, it had ended"
    stage = "training" if (folder / "head" / "last.ckpt").exists() else "caching features"
    return "writing a file" if unfinished(folder) else stage


def difference(folder: Path, reference: Path) -> str:
    """What is not the same after two jobs; empty if nothing."""
    try:
        assert_same_state(final(folder / "head"), final(reference / "head"))
    except AssertionError as error:
        return str(error)
    caches = [sorted((f / "cache").rglob("*.npy")) for f in (folder, reference)]
    if [path.read_bytes() for path in caches[0]] != [path.read_bytes() for path in caches[1]]:
        return "the cache has other features"
    return f"left behind: {left}" if (left := unfinished(folder)) else ""


def kill_often(count: int, folder: Path) -> list[dict[str, str]]:
    """Kill as many jobs, and finish each."""
    data = make_image_tree(folder / "data", classes=3, per_class=16, size=(20, 20))
    seconds, draw, kills = finish(data, folder / "reference"), random.Random(0), []
    for k in range(count):
        target = folder / str(k)
        doing = kill(data, target, draw.random() * seconds, writing=k % 2 == 0)
        finish(data, target)
        kills.append({"doing": doing, "problem": difference(target, folder / "reference")})
    return kills
