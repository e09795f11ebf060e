"""Two processes do together what one does alone."""

import json
import os
import subprocess
import sys

import pytest
import torch

from rootpool.cli import main

pytestmark = pytest.mark.slow

STEPS, BATCH = 4, 32
COMMON = [
    "patches",
    "model.backbone_options={norm: false}",  # batch norm sees half a batch in each process
    "model.lr=0.01",
    "model.milestones=null",
    f"data.batch_size={BATCH}",
    "trainer.max_epochs=2",
    f"trainer.limit_train_batches={STEPS}",
    "trainer.num_sanity_val_steps=0",
]


def train(folder, *overrides):
    """The last checkpoint of a run in processes of its own, and what it said on the way."""
    command = [sys.executable, "-m", "rootpool.cli", "train", f"--output={folder}"]
    # Some virtual machines announce AMX and die of it (SIGILL in any bfloat16 product of torch).
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
    done = subprocess.run(
        [*command, *COMMON, *overrides],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return torch.load(folder / "last.ckpt", weights_only=True), done.stderr


@pytest.fixture(scope="module")
def alone_and_together(tmp_path_factory):
    folder = tmp_path_factory.mktemp("distributed")
    assert main(["train", f"--output={folder / 'alone'}", *COMMON]) == 0
    alone = torch.load(folder / "alone" / "last.ckpt", weights_only=True)
    together, said = train(folder / "together", "trainer.devices=2", "trainer.strategy=ddp")
    return alone, together, said


def test_gradients_of_two_halves_are_those_of_the_whole(alone_and_together):
    alone, together, _ = alone_and_together
    assert alone["global_step"] == together["global_step"] == 2 * STEPS
    for name, value in alone["state_dict"].items():
        assert torch.allclose(value, together["state_dict"][name], rtol=1e-4, atol=1e-6), name
    momenta = alone["optimizer_states"][0]["state"].values()
    assert all(state["momentum_buffer"].abs().max() > 0 for state in momenta)  # it was trained


def test_evaluation_counts_every_sample_once(alone_and_together):
    """3600 samples: one counted twice, or left out, changes the error by 0.028."""
    alone, together, _ = alone_and_together
    one, two = ([epoch["val_error"] for epoch in run["history"]] for run in (alone, together))
    assert one == pytest.approx(two, abs=0.06)
    for error in (*one, *two):
        wrong = error / 100 * 3600
        assert wrong == pytest.approx(round(wrong), abs=1e-2), json.dumps(one + two)


def test_two_processes_say_nothing_that_a_user_cannot_act_on(alone_and_together):
    *_, said = alone_and_together
    assert "warning" not in said.lower(), said
    assert "sync_dist" not in said


def test_mixed_precision_keeps_the_pooling_s_own(tmp_path):
    state, _ = train(
        tmp_path / "bf16", "trainer.precision=bf16-mixed", "trainer.limit_val_batches=1"
    )
    assert all(torch.isfinite(value).all() for value in state["state_dict"].values())
    assert state["hyper_parameters"]["compute_dtype"] is None
