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
from rootpool.train import SettingsError, merge, recipe
from rootpool.train import study as study_module
from rootpool.train.keys import NUMERICAL, code_digest, versions
from rootpool.train.study import Event, Trial, run_trials

EPOCHS, SWITCH = 3, 1
SHORT = {
    "trainer": {
        "max_epochs": EPOCHS,
        "limit_train_batches": 2,
        "limit_val_batches": 1,
        "num_sanity_val_steps": 0,
    },
    "model": {"milestones": [SWITCH + 1]},
    "spectrum_every": 100,
}

STANDALONE, HYBRID = "standalone", "hybrid"


def trial(method, protocol=STANDALONE, **changes):
    config = merge(recipe("patches", method, protocol == HYBRID).config, SHORT, changes)
    if protocol == HYBRID:
        config = merge(config, {"hybrid": {"switch_epoch": SWITCH, "warmup_epochs": 1}})
    return Trial(f"{method}, {protocol}", config, {"method": method, "protocol": protocol})


def curves(folder):
    return read_records(folder / "history.csv")


@pytest.mark.slow
def test_folders_records_results_and_events_of_a_study(tmp_path):
    trials = [trial("isqrt-cov"), trial("exact"), trial("exact", HYBRID)]
    events: list[Event] = []
    folders = run_trials(trials, tmp_path, workers=1, on_event=events.append)
    assert folders == [tmp_path / trial.key for trial in trials]
    # Every epoch and every end is told.
    done = [event.key for event in events if event.done]
    assert sorted(done) == sorted([trials[2].first_stage.key, *(trial.key for trial in trials)])
    news = [event for event in events if event.key == trials[0].key]
    assert [event.record for event in news[:-1]] == list(curves(folders[0]))
    assert news[-1].done
    # A hybrid run begins with the run of its first method.
    newton, exact, hybrid = map(curves, folders)
    assert hybrid[:SWITCH] == newton[:SWITCH] != exact[:SWITCH]
    assert hybrid[SWITCH:] != newton[SWITCH:]
    runs = [read_run(folder) for folder in folders]
    for method, one, folder in zip(("isqrt-cov", "exact", "exact"), runs, folders, strict=True):
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
    asked = Trial("another name", trials[0].config, {**trials[0].tags, "warmup": 1})
    assert run_trials([*trials, asked], tmp_path, workers=1) == [*folders, folders[0]]
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_a_key_is_of_the_effective_settings():
    one = trial("exact")
    assert one.key == Trial("other label", one.config, {}).key
    assert one.key == trial("exact", model={"momentum": 0.9}).key  # the default
    others = [trial("exact", HYBRID), trial("svd-pade"), trial("exact", model={"lr": 0.07})]
    assert len({each.key for each in [one, *others]}) == 1 + len(others)
    first, second = (trial(method, HYBRID).first_stage for method in ("exact", "svd-taylor"))
    assert first.key == second.key  # trained once
    assert one.first_stage is None


def test_a_key_changes_with_the_numerics_and_not_with_words(tmp_path):
    copy = tmp_path / "rootpool"
    for part in NUMERICAL:
        shutil.copytree(Path(rootpool.__file__).parent / part, copy / part)
    code_digest.cache_clear()
    file = copy / "linalg" / "scalar.py"
    before, text = code_digest(copy), file.read_text("utf-8")
    for changed, same in (
        (text + "\n# A comment.\n", True),
        (text.replace('"""', '"""Other words. ', 1), True),
        (text + "\nEPS = 1e-3\n", False),
    ):
        code_digest.cache_clear()
        file.write_text(changed, "utf-8")
        assert (code_digest(copy) == before) is same
    assert versions()["code"] == before


def test_a_mistake_is_found_before_anything_runs(tmp_path):
    with pytest.raises(SettingsError, match="lrr"):
        run_trials([trial("gap"), trial("exact", model={"lrr": 1})], tmp_path)
    with pytest.raises(ValueError, match="workers must be at least 1, got 0"):
        run_trials([trial("gap")], tmp_path, workers=0)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_dead_process_and_an_interruption_end_all_and_the_same_call_continues(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(study_module, "LOOK_EVERY", 0.02)
    long = trial("exact", trainer={"max_epochs": 6})

    def kill(event):
        if event.record is not None:
            (process,) = multiprocessing.active_children()
            os.kill(process.pid, signal.SIGKILL)

    def interrupt(event):
        if event.record is not None:
            raise KeyboardInterrupt

    for happens, error, message in (
        (kill, ChildProcessError, r"trained 'exact, standalone' was killed: often"),
        (interrupt, KeyboardInterrupt, None),
    ):
        with pytest.raises(error, match=message):
            run_trials([long], tmp_path, workers=1, on_event=happens)
        assert not multiprocessing.active_children()
        assert not list(tmp_path.glob("*/result.json"))
    (folder,) = run_trials([long], tmp_path, workers=1)
    monkeypatch.setattr(study_module, "_train_all", paper_runs.run_here)
    (whole,) = run_trials([long], tmp_path / "whole")
    assert curves(folder) == curves(whole)
