"""Heads of birds: ordinary runs that can be configured, and their table."""

from dataclasses import replace

import numpy as np
import pytest

from paper_runs import place
from rootpool.train import resolve
from studies.birds.command import bird_network, load_birds
from studies.birds.measures import heads
from studies.engine.network import all_trials
from studies.followups.command import load_followups


@pytest.mark.parametrize("study", [load_birds(), load_followups()], ids=["birds", "followups"])
def test_every_head_is_a_frozen_cached_run(study, tmp_path):
    network = bird_network(str(tmp_path), "out", seeds=1)
    found = [resolve(t.config) for n in study.runs for t in all_trials(study, network, [n])]
    assert found
    for settings in found:
        assert settings.model.branches
        assert (settings.model.freeze, settings.data.cache) == ("backbone", "out/features")
    assert (
        bird_network(str(tmp_path), "out", held_out=True)
        .trials(study.runs["heads" if "heads" in study.runs else "root"])[0]
        .config["data"]["hold_out"]
    )


@pytest.mark.parametrize("entry", ["birds:heads", "birds:poolings"])
def test_heads_are_compared_on_the_same_images(tmp_path, entry):
    study, network = load_birds(), bird_network(str(tmp_path), "out", seeds=2)
    found = place(study, network, entry, {"root": 10.0}, noise=0)
    right = {run.label: np.arange(100) < (90 if run.label == "root" else 80) for run in found.runs}
    runs = [
        replace(r, folder=replace(r.folder, right=right[r.label], images=100, classes=200))
        for r in found.runs
    ]
    (table,) = heads(study.entries[entry], [replace(found, runs=runs)], None).blocks
    rows = {row[0]: row for row in table.rows}
    assert rows["root"][1].value == pytest.approx(89.5)  # errors of 10 and 11
    assert rows["root"][3].value == pytest.approx(10.0)
    assert table.rows[0][3] is None
    channels, pairs = 96, 96 * 97 // 2
    parameters = (
        192 * channels + 2 * channels + 200 * (pairs + 1)
    )  # convolution, batch norm, classifier
    assert rows["root"][5].value == parameters
    if entry == "birds:poolings":
        assert all(abs(row[5].value / parameters - 1) < 0.003 for row in table.rows)
