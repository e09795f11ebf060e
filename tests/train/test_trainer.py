"""Processes that die, and loggers: the training ends soon, says why, and goes on from where it was."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import lightning.pytorch as pl
import pytest
from lightning.pytorch.loggers import Logger

from rootpool.train import SettingsError, merge
from rootpool.train.data import BadImageError
from rootpool.train.trainer import LOGGERS, make_loggers, translated_errors
from small_runs import BATCHES, CONFIG, EPOCHS, NUMBERED, final, run

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


def _try_get_data():  # as torch's DataLoader calls it
    raise ConnectionResetError(104, "Connection reset by peer")


def fail(error, reason=None):
    raise error from reason


DEATH = RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed. ")
GLOO = RuntimeError("[gloo/pair.cc:553] Connection closed by peer [::1]:99")
WANDB = type("UsageError", (Exception,), {"__module__": "wandb.errors"})
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
        (
            lambda: fail(WANDB("no key;\n log in")),
            SettingsError,
            "^wandb cannot .*: no key; log in$",
        ),
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


# --------------------------------------------------------------------------------------------------
# Loggers


class Recorded(Logger):
    """Stands for the loggers of packages that are not installed here."""

    name = version = None

    def __init__(self, *args, **options) -> None:
        super().__init__()
        self.options, self.metrics = options, {}

    def log_metrics(self, metrics, step=None) -> None:
        self.metrics |= metrics

    def log_hyperparams(self, *args, **options) -> None:
        pass


@pytest.fixture
def installed(monkeypatch):
    """W&B and MLflow, as far as this package sees of them."""
    mlflow = SimpleNamespace(get_tracking_uri=lambda: "sqlite:///here.db", __spec__=object())
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(__spec__=object()))
    for name in ("WandbLogger", "MLFlowLogger"):
        monkeypatch.setattr(f"rootpool.train.trainer.{name}", Recorded)


@pytest.mark.slow
@pytest.mark.usefixtures("installed")
def test_loggers_hear_what_the_history_has(tmp_path):
    done = run(tmp_path, config={**NUMBERED, "loggers": ["wandb", "mlflow"]})
    record = done.module.history[-1]
    for logger in done.trainer.loggers:
        for key in ("train_loss", "train_error", "val_error", "lr"):
            assert logger.metrics[key] == pytest.approx(record[key])


@pytest.mark.usefixtures("installed")
def test_a_continued_training_goes_on_in_its_run_of_wandb(tmp_path):
    def made(folder):
        return make_loggers(["wandb"], folder)[0].options

    assert made(tmp_path / "new")["id"] is None  # W&B draws one
    kept = tmp_path / "old" / "wandb"
    (kept / "offline-run-20300101_120000-abc123").mkdir(parents=True)
    (kept / "latest-run").symlink_to("offline-run-20300101_120000-abc123")
    assert made(tmp_path / "old")["id"] == "abc123"
    assert made(tmp_path / "old")["name"] == "old"
    (logger,) = make_loggers(["mlflow"], tmp_path)
    assert logger.options["tracking_uri"] == "sqlite:///here.db"


def test_loggers_by_name(tmp_path, monkeypatch):
    (logger,) = make_loggers(["tensorboard"], tmp_path)
    assert str(tmp_path) in logger.log_dir
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for name in LOGGERS:
        with pytest.raises(SettingsError, match=f"{name} is not installed; try pip install {name}"):
            make_loggers([name], tmp_path)
