"""Jobs in processes: every promise of :mod:`rootpool.train.jobs`, with jobs that need no training."""

import os
import signal
from dataclasses import dataclass
from functools import partial

import pytest
import torch

from rootpool.train.jobs import Event, Job, run_jobs, stable_key, usable_cores

pytestmark = pytest.mark.slow  # every test starts processes that import torch


def note(text, folder, report):
    report({"threads": torch.get_num_threads(), "word": text})
    return text


def read_neighbour(key, folder, report):
    return (folder.parent / key / "result.json").read_text() + "!"


def fail(folder, report):
    raise FileNotFoundError(2, "no such picture", "bird.jpg")


class OddError(Exception):
    """Cannot be made again from its own arguments."""

    def __init__(self, a, b):
        super().__init__(f"{a} and {b}")


def fail_oddly(folder, report):
    raise OddError("one", "two")


def die(folder, report):
    os.kill(os.getpid(), signal.SIGKILL)


def results(folder):
    return {path.parent.name: path.read_text() for path in folder.glob("*/result.json")}


def test_results_records_and_needs(tmp_path):
    jobs = {"late": Job("late", partial(read_neighbour, "early"), needs=("early",))}
    jobs |= {"early": Job("early", partial(note, "hello"))}
    events = list(run_jobs(jobs, tmp_path, workers=2))
    assert results(tmp_path) == {"early": "hello", "late": "hello!"}
    assert events == [
        Event("early", {"threads": 1, "word": "hello"}),
        Event("early", done=True),
        Event("late", done=True),
    ]
    # A second time, nothing is done again.
    (tmp_path / "early" / "result.json").write_text("kept")
    assert list(run_jobs(jobs, tmp_path)) == [Event("late", done=True), Event("early", done=True)]
    assert results(tmp_path)["early"] == "kept"


def test_an_error_arrives_with_its_traceback_and_what_is_finished_is_kept(tmp_path):
    jobs = {"good": Job("good", partial(note, "done")), "bad": Job("bad", fail)}
    with pytest.raises(FileNotFoundError, match=r"no such picture: 'bird.jpg'") as caught:
        list(run_jobs(jobs, tmp_path, workers=1))
    assert "in fail" in str(caught.value.__cause__)
    assert results(tmp_path) == {"good": "done"}
    with pytest.raises(RuntimeError, match="OddError: one and two"):
        list(run_jobs({"odd": Job("odd", fail_oddly)}, tmp_path))


def test_a_dead_process_is_explained(tmp_path):
    with pytest.raises(
        ChildProcessError, match=r"worked on seed 3 was killed \(SIGKILL\): often the memory"
    ):
        list(run_jobs({"key": Job("seed 3", die)}, tmp_path, workers=1))


def wait_for_ever(folder, report):
    report({"process": os.getpid()})
    signal.pause()


def test_stopping_ends_the_processes(tmp_path):
    events = run_jobs({"key": Job("endless", wait_for_ever)}, tmp_path, workers=1)
    process = next(events).record["process"]
    events.close()  # what Ctrl-C does
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_a_job_that_nobody_does_is_not_waited_for(tmp_path):
    job = Job("late", partial(note, "late"), needs=("nowhere",))
    with pytest.raises(ValueError, match="wait for others that never finish: nowhere"):
        list(run_jobs({"late": job}, tmp_path, workers=1))
    with pytest.raises(ValueError, match="workers must be at least 1, got 0"):
        list(run_jobs({"late": job}, tmp_path, workers=0))


@dataclass(frozen=True)
class Point:
    x: float


def test_keys_are_of_the_content(tmp_path):
    content = {"model": {"lr": 0.1, "milestones": [1, 2]}, "point": Point(1.0), "at": tmp_path}
    turned = {key: content[key] for key in reversed(content)}
    assert stable_key(content) == stable_key(turned)
    others = [{**content, "point": Point(2.0)}, {**content, "at": tmp_path / "x"}, {"model": {}}]
    assert len({stable_key(other) for other in [content, *others]}) == 4
    with pytest.raises(TypeError, match="plain data, got <object"):
        stable_key({"what": object()})


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity mask here")
def test_a_process_per_core_that_may_be_used():
    mask = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(mask)})
        assert usable_cores() == 1
    finally:
        os.sched_setaffinity(0, mask)
    assert usable_cores() == len(mask)
