"""Runs that are stopped anywhere and taken up again end with the bits of runs that were not."""

import functools
import json
import tempfile
from pathlib import Path

import pytest
import torch

from rootpool.report.records import read_records, read_yaml
from rootpool.train import SettingsError, prepare, resolve
from small_runs import Seen, StopAt, StoppedError, assert_same_state, final, run, stopped_run, typed

pytestmark = pytest.mark.slow

SCHEDULES = {
    "steps": "model.milestones=[1, 2]",
    "steps, warm-up": "model.milestones=[2] ; model.warmup_epochs=0.5 ; trainer.max_steps=18",
    "cosine": "model.schedule=cosine",
    "linear, warm-up": "model.schedule=linear ; model.warmup_epochs=1.0",
    "everything": "model.method=svd-pade ; model.optimizer=adamw ; model.lr=0.003 ; model.schedule=cosine"
    " ; model.warmup_epochs=0.5 ; model.decay_norms=false ; model.label_smoothing=0.1 ; model.mixup=0.2"
    " ; model.cutmix=1.0 ; model.freeze=backbone ; model.unfreeze_epoch=1 ; trainer.gradient_clip_val=1.0"
    " ; trainer.accumulate_grad_batches=2 ; trainer.precision=64-true ; hybrid.switch_epoch=1 ; ema=0.9"
    " ; patience=3",
}
STOP = (1, 3)  # epoch and batch after which it is stopped


@functools.cache
def uninterrupted(schedule) -> tuple[Path, Seen]:
    folder, seen = Path(tempfile.mkdtemp()), Seen()
    run(folder, config=typed(SCHEDULES[schedule]), callbacks=[seen])
    return folder, seen


@pytest.mark.parametrize("how", ["killed", "Ctrl-C", "moved"])
@pytest.mark.parametrize("save_every", [0, 1, 2])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_stopped_run_ends_the_same(schedule, save_every, how, tmp_path):
    config = typed(f"{SCHEDULES[schedule]} ; save_every={save_every}")
    whole, expected = uninterrupted(schedule)
    per_epoch = len(expected.samples) // 3
    each = config["trainer"].get("accumulate_grad_batches", 1)
    step = (STOP[0] * per_epoch + STOP[1] + 1) // each
    error, folder = KeyboardInterrupt if how == "Ctrl-C" else StoppedError, tmp_path / "run"
    with pytest.raises((SystemExit, StoppedError)):  # Lightning answers Ctrl-C with an exit
        run(folder, config=config, callbacks=[StopAt(step, error)])
    if how == "moved":
        folder = folder.rename(tmp_path / "elsewhere")
    kept = (folder / "config.yaml").read_bytes()
    with pytest.raises(SettingsError, match="seed was 0 and is 9"):
        prepare(resolve(typed("seed=9", config)), folder, resume=True, progress=False)
    assert (folder / "config.yaml").read_bytes() == kept
    begun = final(folder)["global_step"]
    saved = (step - 1) // save_every * save_every if save_every else 0
    assert begun == max(saved, STOP[0] * per_epoch // each)
    seen = Seen()
    run(folder, config=config, resume=True, callbacks=[seen])
    order = list(expected.samples)
    left = order[order.index((STOP[0], 0)) + begun * each - STOP[0] * per_epoch :]
    assert list(seen.samples) == left
    assert all(seen.samples[k] == expected.samples[k] for k in left)
    assert all(seen.rates[k] == expected.rates[k] for k in left)
    assert_same_state(final(folder), final(whole))
    best, theirs = (torch.load(f / "best.ckpt", weights_only=True) for f in (folder, whole))
    assert best["epoch"] == theirs["epoch"]
    for key, value in theirs["state_dict"].items():
        assert torch.equal(best["state_dict"][key], value), key
    assert read_records(folder / "history.csv") == read_records(whole / "history.csv")
    assert [row["epoch"] for row in read_records(folder / "timing.csv")] == [0, 1, 2]
    assert (folder / "config.yaml").read_bytes() == kept
    ends = [json.loads((f / "result.json").read_text()) for f in (folder, whole)]
    assert ends[0] | {"seconds": 0} == ends[1] | {"seconds": 0}


class StopInValidation(Seen):
    """Ends the process's work after the last batch of an epoch, before its checkpoint."""

    def on_validation_epoch_start(self, trainer, *_) -> None:
        if trainer.current_epoch == STOP[0]:
            raise StoppedError


@pytest.mark.parametrize("schedule", ["steps", "everything"])
def test_a_run_killed_in_a_validation_ends_the_same(schedule, tmp_path):
    config = typed(f"{SCHEDULES[schedule]} ; save_every=1")
    whole, _ = uninterrupted(schedule)
    with pytest.raises(StoppedError):
        run(tmp_path, config=config, callbacks=[StopInValidation()])
    run(tmp_path, config=config, resume=True)
    assert_same_state(final(tmp_path), final(whole))


def test_a_run_stopped_twice_ends_the_same_with_workers(tmp_path):
    """And its records are complete."""
    config = typed(
        "model.method=svd-pade ; hybrid.switch_epoch=1 ; save_every=2 ; spectrum_every=3"
    )
    run(tmp_path / "whole", config=config)
    config = typed("data.workers=1", config)
    stopped_run(tmp_path / "cut", 7, config=config)
    stopped_run(tmp_path / "cut", 13, resume=True, config=config)
    run(tmp_path / "cut", resume=True, config=config)
    assert_same_state(final(tmp_path / "cut"), final(tmp_path / "whole"))
    history = read_records(tmp_path / "cut" / "history.csv")
    assert [row["pooling"] for row in history] == ["isqrt-cov", "svd-pade", "svd-pade"]
    steps = [row["step"] for row in read_records(tmp_path / "cut" / "spectrum.csv")]
    assert steps == list(range(0, 18, 3))


def test_a_hybrid_run_from_the_checkpoint_of_its_first_stage_equals_the_whole(tmp_path):
    """And two such runs do not touch each other: each has read its own tensors."""
    config = typed("model.method=svd-pade ; hybrid.switch_epoch=2")
    run(tmp_path / "whole", config=config)
    run(tmp_path / "first", config=typed("model.method=isqrt-cov ; trainer.max_epochs=2"))
    fork = tmp_path / "first" / "last.ckpt"
    before = fork.read_bytes()
    other = typed("model.method=exact", config)
    for name, one in (("a", other), ("b", config)):
        prepare(resolve(one), tmp_path / name, progress=False).fit(resume_from=fork)
    assert_same_state(final(tmp_path / "b"), final(tmp_path / "whole"))
    assert final(tmp_path / "a")["method"] == "exact"
    assert fork.read_bytes() == before


REFUSED = {
    "model.lr=0.5": ("steps", r"model\.lr was 0\.02 and is 0\.5\. Leave them out"),
    "seed=3": ("steps", "seed was 0 and is 3"),
    "trainer.gradient_clip_val=1.0": ("steps", "clip_val was None and is 1.0"),
    "trainer.precision=bf16-mixed": ("steps", "precision was None and is bf16"),
    "trainer.limit_train_batches=2": ("steps", "limit_train_batches was None and is 2"),
    "trainer.max_epochs=1": ("steps", "cannot be used here: .*max_epochs"),
    "trainer.max_epochs=9": ("cosine", "max_epochs was 3 and is 9"),
    "trainer.max_steps=20": ("linear, warm-up", "max_steps was -1 and is 20"),
}


@pytest.mark.parametrize("change", REFUSED)
def test_a_resume_that_is_refused_changes_nothing(change):
    schedule, message = REFUSED[change]
    folder, _ = uninterrupted(schedule)
    before = {file: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    with pytest.raises(SettingsError, match=message):
        run(folder, config=typed(f"{SCHEDULES[schedule]} ; {change}"), resume=True)
    assert {file: file.read_bytes() for file in folder.iterdir() if file.is_file()} == before


def test_a_longer_training_with_steps_goes_on(tmp_path):
    config = typed(f"{SCHEDULES['steps']} ; data.workers=1")
    short = typed("trainer.max_epochs=1", config)
    run(tmp_path, config=short)
    result = (tmp_path / "result.json").read_text()
    done = run(tmp_path, config=short, resume=True)
    assert (tmp_path / "result.json").read_text() == result  # nothing was left to do
    run(tmp_path, config=config, resume=True)
    assert_same_state(final(tmp_path), final(uninterrupted("steps")[0]))
    assert read_yaml(tmp_path / "config.yaml")["trainer"]["max_epochs"] == 3
    assert done.trainer.global_step == 6


def test_patience_may_change_and_a_training_that_ran_out_of_it_stays_ended(tmp_path):
    still = "model.lr=0.0 ; model.freeze=backbone ; model.drop_rate=0.0 ; trainer.max_epochs=6"
    for patience, epochs in ((1, 2), (1, 2), (3, 4)):
        config = typed(f"{still} ; patience={patience}")
        done = run(tmp_path, config=config, resume=(tmp_path / "last.ckpt").exists())
        assert (len(done.module.history), done.stopped_early) == (epochs, True)
