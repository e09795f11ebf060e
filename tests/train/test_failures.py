"""Processes that die: the training ends soon, says why, and goes on from where it was."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import lightning.pytorch as pl
import pytest

from rootpool.train import merge
from rootpool.train.failures import explained_deaths
from small_runs import BATCHES, CONFIG, EPOCHS, final, run

SECONDS = 60  # of patience with a busy machine; loaders and Lightning look every 5


class KillWorker(pl.Callback):
    """kill -9 for a process that loads data, at the beginning of a step."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.moment = 0.0

    def on_train_batch_start(self, trainer, *_) -> None:
        if trainer.global_step == self.step:
            self.moment = time.monotonic()
            os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)


@pytest.mark.slow
def test_a_loading_process_that_dies(tmp_path):
    config = merge(CONFIG, {"data": {"workers": 1}})
    killer = KillWorker(7)
    with pytest.raises(
        ChildProcessError, match=r"loads images has died \(DataLoader worker.*--res"
    ):
        run(tmp_path, config=config, callbacks=[killer])
    assert time.monotonic() - killer.moment < SECONDS
    # A good checkpoint; that any of them is continued to the bit is shown in test_resume.
    assert 6 <= final(tmp_path)["global_step"] < EPOCHS * BATCHES


def test_a_death_that_others_made_their_own_error_of():
    """The signal of a dead process strikes anywhere, in Lightning's calls of inspect for one."""
    death = RuntimeError("DataLoader worker (pid 3) is killed by signal: Killed.")
    with pytest.raises(ChildProcessError, match="loads images has died"), explained_deaths():
        raise TypeError("unsupported callable") from death
    with pytest.raises(TypeError, match="of its own"), explained_deaths():
        raise TypeError("of its own")


def test_a_death_while_a_batch_is_handed_over():
    def _try_get_data():  # as torch's DataLoader calls it
        raise ConnectionResetError(104, "Connection reset by peer")

    with pytest.raises(ChildProcessError, match=r"DataLoader worker: .*reset"), explained_deaths():
        _try_get_data()
    with pytest.raises(ConnectionResetError), explained_deaths():
        raise ConnectionResetError(104, "Connection reset by peer")


def wait_until(condition) -> None:
    deadline = time.monotonic() + 5 * SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def children(pid: int) -> list[int]:
    """Those that run the same program: rank 1 is a child of rank 0."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(k) for k in listed if b"rootpool" in Path(f"/proc/{k}/cmdline").read_bytes()]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs /proc to find rank 1")
@pytest.mark.slow
def test_one_rank_of_two_that_dies(tmp_path):
    arguments = ["patches", f"--output={tmp_path}", "save_every=2"]
    arguments += ["data.batch_size=32", "trainer.devices=2", "trainer.strategy=ddp"]
    command = [sys.executable, "-m", "rootpool.cli", "train", *arguments]
    with open(tmp_path / "said", "wb") as said:
        first = subprocess.Popen(command, stdout=said, stderr=said)
    try:
        wait_until((tmp_path / "last.ckpt").exists)
        (second,) = children(first.pid)
        moment = time.monotonic()
        os.kill(second, signal.SIGKILL)
        wait_until(lambda: not alive(first.pid))
        assert time.monotonic() - moment < SECONDS
    finally:
        for pid in (first.pid, *children(first.pid)):
            os.kill(pid, signal.SIGKILL)
    assert first.wait() != 0
    text = (tmp_path / "said").read_text()
    assert (
        "another process of this training has ended" in text or f"PID {second} terminated" in text
    )
    assert final(tmp_path)["global_step"] % 2 == 0


@pytest.mark.parametrize(
    ("said", "error", "message"),
    [
        (
            "DataLoader worker (pid 7) is killed by signal: Killed. ",
            ChildProcessError,
            "fewer data.w",
        ),
        (
            "[gloo/pair.cc:553] Connection closed by peer [::1]:99",
            ConnectionError,
            "has ended .*gloo",
        ),
        ("mat1 and mat2 shapes cannot be multiplied", RuntimeError, "^mat1 and mat2 shapes"),
    ],
)
def test_what_is_said(said, error, message):
    with pytest.raises(error, match=message), explained_deaths():
        raise RuntimeError(said)
