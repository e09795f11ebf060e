"""Runs that are stopped anywhere and taken up again end with the weights of runs that were not."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import lightning.pytorch as pl
import pytest
import torch
import yaml

from rootpool.train.run import Run, prepare
from rootpool.train.settings import resolve

EPOCHS, BATCHES = 4, 5
CONFIG = {
    "model": {"method": "svd-pade", "lr": 0.08, "milestones": [1, 3]},
    "hybrid": {"switch_epoch": 2, "warmup_epochs": 1},
    "data": {"root": "photo-patches", "batch_size": 16, "workers": 0},
    "trainer": {
        "max_epochs": EPOCHS,
        "accelerator": "cpu",
        "limit_train_batches": BATCHES,
        "limit_val_batches": 1,
        "num_sanity_val_steps": 0,
        "log_every_n_steps": 1,
    },
    "save_every": 2,
    "spectrum_every": 3,
}


class StoppedError(Exception):
    pass


class StopAt(pl.Callback):
    """Ends the process's work after a step, as a kill would: nothing is saved on the way out."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_end(self, trainer, *_) -> None:
        if trainer.global_step == self.step:
            raise StoppedError


def run(folder: Path, *, stop_at: int | None = None, resume: bool = False, config=CONFIG) -> Run:
    stops = [] if stop_at is None else [StopAt(stop_at)]
    prepared = prepare(resolve(config), folder, resume=resume, progress=False, callbacks=stops)
    beginning = prepared.last if resume and prepared.last.is_file() else None
    if stop_at is None:
        prepared.fit(resume_from=beginning)
    else:
        with pytest.raises(StoppedError):
            prepared.fit(resume_from=beginning)
    return prepared


def final(folder: Path) -> dict:
    return torch.load(folder / "last.ckpt", weights_only=True)


def flatten(value, path="") -> dict[str, object]:
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else None
    )
    if items is None:
        return {path: value}
    return {k: v for key, part in items for k, v in flatten(part, f"{path}/{key}").items()}


def assert_same_state(got: dict, expected: dict) -> None:
    for part in (
        "state_dict",
        "optimizer_states",
        "lr_schedulers",
        "history",
        "method",
        "global_step",
    ):
        ours, theirs = flatten(got[part]), flatten(expected[part])
        assert ours.keys() == theirs.keys()
        for key, value in theirs.items():
            same = (
                torch.equal(ours[key], value)
                if isinstance(value, torch.Tensor)
                else ours[key] == value
            )
            assert same or "train_" in key, f"{part}{key}: {ours[key]} instead of {value}"


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> dict:
    folder = tmp_path_factory.mktemp("uninterrupted")
    run(folder)
    return final(folder)


@pytest.mark.parametrize("step", [1, 5, 7, 10, 16])
def test_a_run_stopped_after_any_step_ends_the_same(step, tmp_path, uninterrupted):
    run(tmp_path, stop_at=step)
    resumed = run(tmp_path, resume=True)
    assert resumed.trainer.global_step == EPOCHS * BATCHES
    assert_same_state(final(tmp_path), uninterrupted)


def test_a_run_stopped_twice_ends_the_same_with_workers(tmp_path, uninterrupted):
    config = {**CONFIG, "data": {**CONFIG["data"], "workers": 1}}
    run(tmp_path, stop_at=7, config=config)
    run(tmp_path, stop_at=13, resume=True, config=config)
    run(tmp_path, resume=True, config=config)
    assert_same_state(final(tmp_path), uninterrupted)


def test_a_hybrid_run_from_the_checkpoint_of_its_first_stage_equals_the_whole(
    tmp_path, uninterrupted
):
    """And two such runs do not touch each other: each has read its own tensors."""
    first = {
        **{k: v for k, v in CONFIG.items() if k != "hybrid"},
        "model": {**CONFIG["model"], "method": "isqrt-cov"},
        "trainer": {**CONFIG["trainer"], "max_epochs": 2},
    }
    run(tmp_path / "first", config=first)
    fork = tmp_path / "first" / "last.ckpt"
    before = fork.read_bytes()
    other = {**CONFIG, "model": {**CONFIG["model"], "method": "exact"}}
    prepared = [
        prepare(resolve(c), tmp_path / n, progress=False) for n, c in (("a", other), ("b", CONFIG))
    ]
    for one in prepared:
        one.fit(resume_from=fork)
    assert_same_state(final(tmp_path / "b"), uninterrupted)
    assert final(tmp_path / "a")["method"] == "exact"
    assert not torch.equal(
        final(tmp_path / "a")["state_dict"]["model.classifier.weight"],
        uninterrupted["state_dict"]["model.classifier.weight"],
    )
    assert fork.read_bytes() == before


def test_records_of_a_resumed_run_are_complete(tmp_path, uninterrupted):
    run(tmp_path, stop_at=13)
    run(tmp_path, resume=True)
    rows = (tmp_path / "history.csv").read_text().splitlines()
    assert len(rows) == 1 + EPOCHS
    poolings = [row.split(",")[rows[0].split(",").index("pooling")] for row in rows[1:]]
    assert poolings == [
        "isqrt-cov",
        "isqrt-cov",
        "svd-pade",
        "svd-pade",
    ]  # the switch is in the record
    steps = [row.split(",")[0] for row in (tmp_path / "spectrum.csv").read_text().splitlines()[1:]]
    assert steps == [str(step) for step in range(0, EPOCHS * BATCHES, 3)]


def test_kill_9_in_the_middle(tmp_path, uninterrupted):
    """A real process, really killed; then the same command with --resume."""
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(CONFIG))
    script = (
        "import sys, yaml; from rootpool.train.run import prepare; "
        "from rootpool.train.settings import resolve; "
        "r = prepare(resolve(yaml.safe_load(open(sys.argv[1]))), sys.argv[2], resume=True, progress=False); "
        "r.fit(resume_from=r.last if r.last.is_file() else None)"
    )
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-c",
        script,
        str(tmp_path / "config.yaml"),
        str(tmp_path / "out"),
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not (tmp_path / "out" / "last.ckpt").exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert (
        torch.load(tmp_path / "out" / "last.ckpt", weights_only=True)["global_step"]
        < EPOCHS * BATCHES
    )
    subprocess.run(command, check=True, capture_output=True)
    assert_same_state(final(tmp_path / "out"), uninterrupted)
