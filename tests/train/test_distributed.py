"""Two processes do together what one does alone, also if one of them is killed on the way."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from rootpool.cli import main
from small_runs import final

pytestmark = pytest.mark.slow

SECONDS = 60  # of patience with a busy machine; Lightning looks every 5
STEPS = 4
COMMON = [
    *("patches", "save_every=1", "data.batch_size=32", "model.lr=0.01", "model.milestones=null"),
    "model.backbone_options={norm: false}",  # batch norm sees half a batch in each process
    *("trainer.max_epochs=2", "trainer.num_sanity_val_steps=0"),
    *(f"trainer.limit_train_batches={STEPS}", "loggers=[]"),
]
TWO = ["trainer.devices=2", "trainer.accelerator=cpu"]
# Strategies by which two processes share the work, and what the resumed half may use instead.
STRATEGIES = {
    "trainer.strategy=ddp": "trainer.strategy={name: ddp, static_graph: true, bucket_cap_mb: 1}",
    "trainer.strategy=fsdp": "trainer.strategy={name: fsdp, reshard_after_forward: false}",
}
# Some virtual machines announce AMX and die of it (SIGILL in any bfloat16 product of torch).
ENVIRONMENT = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}


def command(folder, *options):
    command = [sys.executable, "-m", "rootpool.cli", "train", f"--output={folder}"]
    return [*command, *COMMON, *options]


def train(folder, *options):
    """The last checkpoint of a run in processes of its own, and what it said on the way."""
    told = {"capture_output": True, "text": True, "timeout": 300, "env": ENVIRONMENT}
    done = subprocess.run(command(folder, *options), **told)
    assert done.returncode == 0, done.stderr[-2000:]
    return final(folder), done.stderr


def wait_until(condition) -> None:
    deadline = time.monotonic() + 5 * SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def children(pid: int) -> list[int]:
    """Those that run the same program: rank 1 is a child of rank 0."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(k) for k in listed if b"rootpool" in Path(f"/proc/{k}/cmdline").read_bytes()]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    assert main(["train", f"--output={folder}", *COMMON]) == 0
    return final(folder)


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs /proc to find rank 1")
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_two_processes_of_which_one_dies_are_resumed_and_end_like_one(strategy, alone, tmp_path):
    folder = tmp_path / "run"
    with open(tmp_path / "said", "wb") as said:
        first = subprocess.Popen(command(folder, *TWO, strategy), stdout=said, stderr=said)
    try:
        wait_until((folder / "last.ckpt").exists)
        (second,) = children(first.pid)
        moment = time.monotonic()
        os.kill(second, signal.SIGKILL)
        wait_until(lambda: first.poll() is not None)
        assert time.monotonic() - moment < SECONDS
    finally:
        first.kill()
    assert first.wait() != 0
    text = (tmp_path / "said").read_text()
    assert "another process of this training has ended" in text or f"PID {second} termin" in text
    together, said = train(folder, "--resume", *TWO, STRATEGIES[strategy])
    assert "warning" not in said.lower(), said  # nothing that a user cannot act on
    assert alone["global_step"] == together["global_step"] == 2 * STEPS
    for name, value in alone["state_dict"].items():
        assert torch.allclose(value, together["state_dict"][name], rtol=1e-4, atol=1e-6), name
    momenta = alone["optimizer_states"][0]["state"].values()
    assert all(state["momentum_buffer"].abs().max() > 0 for state in momenta)  # it was trained
    for one, two in zip(alone["history"], together["history"], strict=True):
        for name in ("train_loss", "train_error", "val_loss"):
            assert one[name] == pytest.approx(two[name], rel=1e-4)
        # 3600 samples: one counted twice, or left out, changes the error by 0.028.
        assert one["val_error"] == pytest.approx(two["val_error"], abs=0.06)
        wrong = two["val_error"] / 100 * 3600
        assert wrong == pytest.approx(round(wrong), abs=1e-2)


def test_mixed_precision_learns_the_same_but_for_its_rounding(alone, tmp_path):
    mixed, _ = train(tmp_path, "trainer.precision=bf16-mixed", "trainer.limit_val_batches=1")
    for one, other in zip(alone["history"], mixed["history"], strict=True):
        assert one["train_loss"] == pytest.approx(other["train_loss"], rel=0.02)
