"""Trainings side by side, and the keys of what is kept."""

import json
import multiprocessing
import os
import shutil
import signal
from pathlib import Path

import pytest

import paper_runs
import rootpool
from rootpool.report.records import read_records
from rootpool.report.runs import read_run
from rootpool.train import SettingsError, recipe
from rootpool.train import study as study_module
from rootpool.train.keys import NUMERICAL, code_digest, versions
from rootpool.train.study import Trial, run_trials
from small_runs import typed

EPOCHS, SWITCH = 3, 1
SHORT = (
    f"trainer.max_epochs={EPOCHS} ; trainer.limit_train_batches=2 ; trainer.limit_val_batches=1"
    f" ; trainer.num_sanity_val_steps=0 ; model.milestones=[{SWITCH + 1}] ; spectrum_every=100"
)


def trial(method, changes="", hybrid=False):
    config = typed(SHORT, recipe("patches", method, hybrid).config)
    config = typed(f"hybrid.switch_epoch={SWITCH}" * hybrid, config)
    return Trial(f"{method}, hybrid" if hybrid else method, typed(changes, config))


def curves(folder):
    return read_records(folder / "history.csv")


@pytest.mark.slow
def test_folders_records_and_results_of_a_study(tmp_path, monkeypatch):
    monkeypatch.setattr(study_module, "_train_all", paper_runs.run_here)
    trials = [trial("isqrt-cov"), trial("exact"), trial("exact", hybrid=True)]
    done = []
    folders = run_trials(trials, tmp_path, on_event=lambda event: done.append(event.key))
    assert folders == [tmp_path / trial.key for trial in trials]
    assert sorted(done) == sorted([trials[2].first_stage.key, *(trial.key for trial in trials)])
    # A hybrid run begins with the run of its first method.
    newton, exact, hybrid = map(curves, folders)
    assert hybrid[:SWITCH] == newton[:SWITCH] != exact[:SWITCH]
    assert hybrid[SWITCH:] != newton[SWITCH:]
    for method, folder in zip(("isqrt-cov", "exact", "exact"), folders, strict=True):
        one = read_run(folder)
        assert (one.settings["model.method"], len(one.history)) == (method, EPOCHS)
        assert [record["step"] for record in one.spectrum] == [0]
        result = json.loads((folder / "result.json").read_text("utf-8"))
        assert set(result) == {"seconds", "classes", "images", "missed", "taken_for", "diverged"}
        assert (result["classes"], result["diverged"]) == (18, None)
        missed, images = result["missed"], result["images"]
        assert missed == sorted(set(missed) & set(range(images)))
        assert 100 * len(missed) / images == pytest.approx(one.history[-1]["val_error"])
    # Nothing is run again.
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    asked = Trial("another name", trials[0].config, {"warmup": 1})
    assert run_trials([*trials, asked], tmp_path) == [*folders, folders[0]]
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_a_key_is_of_the_effective_settings():
    one = trial("exact")
    assert one.key == Trial("other label", one.config, {}).key
    assert one.key == trial("exact", "model.momentum=0.9").key  # the default
    others = [trial("exact", hybrid=True), trial("svd-pade"), trial("exact", "model.lr=0.07")]
    assert len({each.key for each in [one, *others]}) == 1 + len(others)
    first, second = (trial(method, hybrid=True).first_stage for method in ("exact", "svd-taylor"))
    assert first.key == second.key  # trained once
    assert one.first_stage is None


def test_a_run_goes_on_from_the_first_stage_of_others_with_its_seed(tmp_path, monkeypatch):
    begun = {}

    def remember(left, folder, workers):
        begun.update({key: first for key, (_, first) in left.items()})
        return iter(())

    monkeypatch.setattr(study_module, "_train_all", remember)
    newton, hybrid, exact = trial("isqrt-cov"), trial("exact", hybrid=True), trial("exact")
    first = hybrid.first_stage.key
    others = [trial("isqrt-cov", "seed=1"), trial("isqrt-cov", f"trainer.max_epochs={SWITCH}")]
    run_trials([newton, hybrid, exact, *others], tmp_path)
    assert others[1].key == first  # the first stage itself begins at the beginning
    continued = {each.key: first for each in (newton, hybrid)}
    assert begun == continued | {each.key: None for each in (exact, *others)}


def test_a_key_changes_with_the_numerics_and_not_with_words(tmp_path):
    copy = tmp_path / "rootpool"
    for part in NUMERICAL:
        shutil.copytree(Path(rootpool.__file__).parent / part, copy / part)
    file = copy / "linalg" / "scalar.py"
    text = file.read_text("utf-8")
    for changed, same in (
        (text + "\n# A comment.\n", True),
        (text.replace('"""', '"""Other words. ', 1), True),
        (text + "\nEPS = 1e-3\n", False),
    ):
        code_digest.cache_clear()
        file.write_text(changed, "utf-8")
        assert (code_digest(copy) == versions()["code"]) is same


def test_a_mistake_is_found_before_anything_runs(tmp_path):
    with pytest.raises(SettingsError, match="lrr"):
        run_trials([trial("gap"), trial("exact", "model.lrr=1")], tmp_path)
    with pytest.raises(ValueError, match="workers must be at least 1, got 0"):
        run_trials([trial("gap")], tmp_path, workers=0)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_dead_process_and_an_interruption_end_all_and_the_same_call_continues(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(study_module, "LOOK_EVERY", 0.02)
    long, told = trial("exact", "trainer.max_epochs=6"), []

    def kill(event):
        if event.record is not None:
            (process,) = multiprocessing.active_children()
            os.kill(process.pid, signal.SIGKILL)

    def interrupt(event):
        if event.record is not None:
            raise KeyboardInterrupt

    for happens, error, message in (
        (kill, ChildProcessError, r"trained 'exact' was killed: often"),
        (interrupt, KeyboardInterrupt, None),
    ):
        with pytest.raises(error, match=message):
            run_trials([long], tmp_path, workers=1, on_event=happens)
        assert not multiprocessing.active_children()
        assert not list(tmp_path.glob("*/result.json"))
    (folder,) = run_trials([long], tmp_path, workers=1, on_event=told.append)
    assert [event.record for event in told[:-1]] == curves(folder)  # every epoch is told
    assert told[-1].done
    monkeypatch.setattr(study_module, "_train_all", paper_runs.run_here)
    (whole,) = run_trials([long], tmp_path / "whole")
    assert curves(folder) == curves(whole)
