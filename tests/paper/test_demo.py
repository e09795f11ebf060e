"""The demo: a preset of what the paper trains and asks, on a page of its own."""

import json
import re

import pytest

from paper_runs import made_up
from rootpool.paper import demo as module
from rootpool.paper.demo import ENTRIES_SHOWN, demo
from rootpool.paper.entries import ENTRIES
from rootpool.paper.plan import Plan, in_our_form
from rootpool.recipes import pooling_names

OFFSETS = {"gap": 28.0, "isqrt-cov": 20.0, "exact": 21.0, "exact, hybrid": 19.0}


@pytest.fixture
def made_up_runs(monkeypatch):
    """Results that were never trained, by label."""
    asked = []

    def train(trials, folder, workers):
        asked.extend(trials)
        return {t.key: made_up(t, OFFSETS.get(t.label, 20.0)) for t in trials}

    monkeypatch.setattr(module, "train", train)
    return asked


def run(tmp_path, **options):
    assert demo(tmp_path, **options) == 0
    return (tmp_path / "report.md").read_text(encoding="utf-8")


def test_the_runs_are_those_of_the_paper(made_up_runs, tmp_path):
    """So that the demo and the paper share them."""
    run(tmp_path, methods=["mpn-cov", "gap", "isqrt-cov"])
    of_paper = {t.key for t in ENTRIES["table:resnet"].trials(Plan(seeds=1))}
    assert {trial.key for trial in made_up_runs} <= of_paper


def test_the_page_has_every_run_and_the_papers_claims(made_up_runs, tmp_path):
    text = run(tmp_path, seeds=3, methods=["gap", "isqrt-cov", "exact"])
    for label in OFFSETS:
        assert re.search(rf"^\| {label} \|", text, re.MULTILINE)
    assert ENTRIES["table:alexnet"].claim in text
    assert "Every covariance pooling beats average pooling, standalone." in text
    assert (tmp_path / "index.html").is_file()
    results = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert len(results) == len(made_up_runs)


def test_the_default_selection_answers_every_entry(made_up_runs, tmp_path):
    text = run(tmp_path)
    for name in ENTRIES_SHOWN:
        assert f"### {ENTRIES[name].title}" in text
    assert "not measured |" not in text


def test_one_seed_claims_nothing(made_up_runs, tmp_path):
    text = run(tmp_path)
    assert "the spread is unknown" in text
    assert "rootpool demo --seeds 5" in text
    assert "✓ supported |" not in text


def test_all_methods_and_a_page_elsewhere(made_up_runs, tmp_path):
    page = tmp_path / "docs" / "demo.md"
    assert demo(tmp_path / "out", methods=["all"], markdown=page) == 0
    names = pooling_names()
    assert {t.tags["method"] for t in made_up_runs} == {*names, *map(in_our_form, names)}
    assert page.is_file()


def test_unknown_method():
    with pytest.raises(ValueError, match="'svd-pad'; did you mean svd-pade"):
        demo(methods=["svd-pad"])
