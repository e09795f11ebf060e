"""Processes that die, and loggers: the training ends soon, says why, and goes on from where it was."""

import multiprocessing
import os
import signal
import time

import lightning.pytorch as pl
import pytest

from rootpool.train import SettingsError, merge
from rootpool.train.data import BadImageError
from rootpool.train.trainer import LOGGERS, make_loggers, translated_errors
from small_runs import NUMBERED, final, run

SECONDS = 60  # of patience with a busy machine; loaders look every 5


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
    config = merge(NUMBERED, {"data": {"workers": 1}, "save_every": 2})
    killer = KillWorker(7)
    with pytest.raises(ChildProcessError, match=r"images has died \(DataLoader worker.*--res"):
        run(tmp_path, config=config, callbacks=[killer])
    assert time.monotonic() - killer.moment < SECONDS
    # A good checkpoint; that any of them is continued to the bit is shown in test_resume.
    assert 6 <= final(tmp_path)["global_step"] < 18


def _try_get_data():  # as torch's DataLoader calls it
    raise ConnectionResetError(104, "Connection reset by peer")


def fail(error, reason=None):
    raise error from reason


DEATH = RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed. ")
GLOO = RuntimeError("[gloo/pair.cc:553] Connection closed by peer [::1]:99")
BAD = BadImageError(
    "Caught BadImageError\nOriginal Traceback\nx.BadImageError: cannot decode 1.jpg"
)


@pytest.mark.parametrize(
    ("action", "error", "message"),
    [
        (lambda: fail(DEATH), ChildProcessError, "loads images has died .* fewer data.w"),
        # The signal of a dead process strikes anywhere, in Lightning's calls of inspect for one.
        (lambda: fail(TypeError("callable"), DEATH), ChildProcessError, "loads images has died"),
        (_try_get_data, ChildProcessError, r"DataLoader worker: .*reset"),
        (lambda: fail(GLOO), ConnectionError, "has ended .*gloo"),
        (lambda: fail(BAD), BadImageError, "^cannot decode 1.jpg$"),
        (
            lambda: fail(BadImageError("cannot decode 2.jpg")),
            BadImageError,
            "^cannot decode 2.jpg$",
        ),
        (lambda: fail(TypeError("of its own")), TypeError, "^of its own$"),
        (lambda: fail(ConnectionResetError(104, "reset")), ConnectionResetError, "reset"),
        (lambda: fail(RuntimeError("shapes cannot be multiplied")), RuntimeError, "^shapes"),
    ],
)
def test_what_is_said(action, error, message):
    with pytest.raises(error, match=message), translated_errors():
        action()


def test_loggers_by_name(tmp_path, monkeypatch):
    (logger,) = make_loggers(["tensorboard"], tmp_path)
    assert str(tmp_path) in logger.log_dir
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for name in LOGGERS:
        with pytest.raises(SettingsError, match=f"{name} is not installed; try pip install {name}"):
            make_loggers([name], tmp_path)
