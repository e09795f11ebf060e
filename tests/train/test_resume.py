"""Runs that are stopped anywhere and taken up again end with the weights of runs that were not."""

import pytest
import torch

from rootpool.report.records import read_records
from rootpool.train.run import prepare
from rootpool.train.settings import resolve
from small_runs import BATCHES, CONFIG, EPOCHS, assert_same_state, final, run, stopped_run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> dict:
    folder = tmp_path_factory.mktemp("uninterrupted")
    run(folder)
    return final(folder)


@pytest.mark.parametrize("step", [1, 7, 10])  # before a checkpoint, within an epoch, at its end
def test_a_run_stopped_after_any_step_ends_the_same(step, tmp_path, uninterrupted):
    stopped_run(tmp_path, step)
    resumed = run(tmp_path, resume=True)
    assert resumed.trainer.global_step == EPOCHS * BATCHES
    assert_same_state(final(tmp_path), uninterrupted)


def test_a_run_stopped_twice_ends_the_same_with_workers(tmp_path, uninterrupted):
    """And its records are complete."""
    config = {**CONFIG, "data": {**CONFIG["data"], "workers": 1}}
    stopped_run(tmp_path, 7, config=config)
    stopped_run(tmp_path, 13, resume=True, config=config)
    run(tmp_path, resume=True, config=config)
    assert_same_state(final(tmp_path), uninterrupted)
    history = read_records(tmp_path / "history.csv")
    assert [row["pooling"] for row in history] == 2 * ["isqrt-cov"] + 2 * ["svd-pade"]
    steps = [row["step"] for row in read_records(tmp_path / "spectrum.csv")]
    assert steps == list(range(0, EPOCHS * BATCHES, 3))


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
