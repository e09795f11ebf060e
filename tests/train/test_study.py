"""Trainings side by side; what `rootpool.jobs` promises is tested with it."""

import json

import pytest

from rootpool.recipes import HYBRID, STANDALONE, SettingsError, merge, recipe
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


def trial(method, protocol=STANDALONE, **changes):
    config = merge(recipe("patches", method, protocol).config, SHORT, changes)
    if protocol == HYBRID:
        config = merge(config, {"hybrid": {"switch_epoch": SWITCH, "warmup_epochs": 1}})
    return Trial(f"{method}, {protocol}", config, {"method": method, "protocol": protocol})


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    trials = [trial("isqrt-cov"), trial("exact"), trial("exact", HYBRID)]
    events: list[Event] = []
    results = run_trials(trials, folder, workers=1, on_event=events.append)
    return folder, trials, events, results


@pytest.mark.slow
def test_results_come_in_the_order_of_the_trials_with_their_tags(study):
    _, trials, _, results = study
    assert [result["label"] for result in results] == [trial.label for trial in trials]
    assert [result["protocol"] for result in results] == [STANDALONE, STANDALONE, HYBRID]
    assert all(len(result["curves"]) == EPOCHS for result in results)
    assert all([record["step"] for record in result["spectrum"]] == [0] for result in results)


@pytest.mark.slow
def test_a_hybrid_run_shares_its_first_stage_with_the_start_method(study):
    _, _, _, (newton, exact, hybrid) = study
    assert hybrid["curves"][:SWITCH] == newton["curves"][:SWITCH] != exact["curves"][:SWITCH]
    assert hybrid["curves"][SWITCH:] != newton["curves"][SWITCH:]


@pytest.mark.slow
def test_a_result_says_which_images_were_missed(study):
    folder, trials, _, results = study
    for trial, result in zip(trials, results, strict=True):
        missed, images = result["missed"], result["images"]
        noted = json.loads((folder / trial.key / "missed.json").read_text("utf-8"))
        assert noted == {"images": images, "missed": missed}
        assert images > 0
        assert missed == sorted(set(missed) & set(range(images)))
        assert 100 * len(missed) / images == pytest.approx(result["curves"][-1]["val_error"])


@pytest.mark.slow
def test_events_tell_every_epoch_and_every_end(study):
    _, trials, events, _ = study
    done = [event.key for event in events if event.done]
    assert sorted(done) == sorted([trials[2].first_stage.key, *(trial.key for trial in trials)])
    news = [event for event in events if event.key == trials[0].key]
    assert [event.record["epoch"] for event in news[:-1]] == list(range(EPOCHS))
    assert 0 <= news[0].record["val_error"] <= 100
    assert news[-1].done


@pytest.mark.slow
def test_a_result_is_made_once_and_has_the_name_of_the_trial_that_asks(study):
    folder, trials, _, results = study
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    asked = Trial("another name", trials[0].config, {**trials[0].tags, "warmup": 1})
    found = run_trials([*trials, asked], folder, workers=1)
    assert found == [*results, {**results[0], "label": "another name", "warmup": 1}]
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_a_key_is_of_the_settings_alone():
    one = trial("exact")
    assert one.key == Trial("other label", one.config, {}).key
    others = [trial("exact", HYBRID), trial("svd-pade"), trial("exact", model={"lr": 0.07})]
    assert len({each.key for each in [one, *others]}) == 1 + len(others)


def test_hybrid_runs_share_their_first_stage():
    first, second = (trial(method, HYBRID).first_stage for method in ("exact", "svd-taylor"))
    assert first.key == second.key
    assert trial("exact").first_stage is None


def test_a_wrong_configuration_is_found_before_anything_runs(tmp_path):
    with pytest.raises(SettingsError, match="lrr"):
        run_trials([trial("gap"), trial("exact", model={"lrr": 1})], tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_training_that_diverges_has_a_result(tmp_path):
    (result,) = run_trials([trial("exact", model={"lr": 1e30})], tmp_path, workers=1)
    assert result["diverged"]["epoch"] == 0
    assert result["diverged"]["step"] >= 1
    assert result["curves"] == []
    assert result["classes"] == 18
