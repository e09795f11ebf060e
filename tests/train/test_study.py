import io
import json

import pytest
from rich.console import Console

from rootpool.paper.demo import LiveTable, demo_trials
from rootpool.recipes import merge
from rootpool.train.study import Event, Trial, run_trials

SHORT = {"trainer": {"limit_train_batches": 2, "limit_val_batches": 1, "num_sanity_val_steps": 0}}


def short(trial: Trial) -> Trial:
    return Trial(trial.label, merge(trial.config, SHORT), trial.tags)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    trials = [short(trial) for trial in demo_trials(["isqrt-cov", "exact"], seeds=1)]
    events: list[Event] = []
    results = run_trials(trials, folder, workers=1, on_event=events.append)
    return folder, trials, events, results


def test_results_come_in_the_order_of_the_trials_with_their_tags(study):
    _, trials, _, results = study
    assert [result["label"] for result in results] == [trial.label for trial in trials]
    assert [result["protocol"] for result in results] == ["standalone", "standalone", "hybrid"]
    assert all(len(result["curves"]) == 8 for result in results)


def test_a_hybrid_run_shares_its_first_stage_with_the_start_method(study):
    _, _, _, (newton, exact, hybrid) = study
    assert hybrid["curves"][:5] == newton["curves"][:5] != exact["curves"][:5]
    assert hybrid["curves"][5:] != newton["curves"][5:]
    assert [record["step"] for record in hybrid["spectrum"]] == [0]  # every 21 steps, 16 in all


def test_events_tell_every_epoch_and_every_end(study):
    _, trials, events, _ = study
    done = [event.key for event in events if event.done]
    assert len(done) == len(set(done)) == len(trials) + 1  # and the first stage
    epochs = [
        event.record["epoch"] for event in events if event.key == trials[0].key and event.record
    ]
    assert epochs == list(range(8))


def test_what_has_a_result_is_not_run_again(study):
    folder, trials, _, results = study
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert run_trials(trials, folder, workers=1) == results
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_a_result_has_the_name_of_the_trial_that_asks_for_it(study):
    folder, trials, _, results = study
    asked = Trial("another name", trials[0].config, {**trials[0].tags, "warmup": 1})
    (found,) = run_trials([asked], folder)
    assert found == {**results[0], "label": "another name", "warmup": 1}


def test_other_settings_have_other_keys(study):
    _, trials, _, _ = study
    changed = Trial("changed", merge(trials[0].config, {"model": {"lr": 0.07}}), trials[0].tags)
    relabelled = Trial("other", trials[0].config, {})
    assert len({trial.key for trial in trials}) == len(trials)
    assert changed.key != trials[0].key == relabelled.key


def test_a_failing_run_is_reported_and_others_keep_their_results(tmp_path):
    good = short(demo_trials(["gap"], seeds=1)[0])
    bad = Trial("bad", merge(good.config, {"data": {"root": str(tmp_path / "nowhere")}}), {})
    with pytest.raises(Exception, match="nowhere"):
        run_trials([good, bad], tmp_path / "runs", workers=1)
    assert json.loads((tmp_path / "runs" / good.key / "result.json").read_text())["label"] == "gap"


def test_the_live_table_shows_what_happened():
    trials = demo_trials(["exact"], seeds=1)
    table = LiveTable(trials)
    key = trials[0].key
    table.update(Event(key, {"epoch": 2, "train_error": 51.23, "val_error": 60.06}))
    assert table.rows[key]["epoch"] == 3
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(table)
    text = console.export_text()
    assert "60.1" in text
    assert "━━━╌╌╌╌╌" in text
    table.update(Event(key, None, done=True))
    assert table.rows[key]["done"]
