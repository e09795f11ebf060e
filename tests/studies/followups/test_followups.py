"""What was published since: claims as data, trainings in miniature, verdicts, page and command."""

import random
import re
from dataclasses import replace

import numpy as np
import pytest

from rootpool.train import merge
from rootpool.train.settings import resolve
from rootpool.train.study import run_trials
from studies.__main__ import main
from studies.birds.birds import TABLES, BirdStudy
from studies.birds.study import HeadResult
from studies.followups.few_shot import CLASSIFIERS, FEW_SHOT, SHOTS, FewShotResult
from studies.followups.few_shot_page import few_shot_rows
from studies.followups.follow_ups import (
    SETTINGS,
    follow_up_rows,
    follow_up_trials,
    judge,
    load_follow_ups,
    parse_follow_ups,
)
from studies.followups.page import followups_page
from studies.paper.command import run_record
from studies.paper.entries import ENTRIES
from studies.paper.plan import Measured, Plan

FILE = load_follow_ups()


def rows(effect=None, seeds=6, **other):
    """Errors of all runs in miniature: 20 % with noise, and effects of some of them in points."""
    draw = random.Random(0)
    return [
        {
            "run": run,
            "method": run,
            "protocol": "standalone",
            "seed": seed,
            "val_error": 20 + seed + (effect or {}).get(run, 0.0) + draw.gauss(0, 0.05),
            "train_error": 1.0,
            "log_condition": 4.0
            + (other.get("condition", 0.0) if "nog" in run else draw.gauss(0, 0.1)),
            "diverged": "",
        }
        for run in FILE.runs
        for seed in range(seeds)
    ]


def verdicts(claim, setting, rows):
    return [j.answer.verdict for j in judge(FILE.claims[claim], setting, rows)]


def test_every_question_is_about_runs_that_exist():
    few = few_shot_rows(episodes(3))
    made = {"miniature": rows(), "birds": birds(1), "few-shot": few}
    made["birds"] = [
        {"run": r.head, "method": r.head, "seed": r.seed, "val_error": 100 - r.accuracy}
        for r in made["birds"].results
    ]
    for claim in FILE.claims.values():
        assert claim.title
        for text in (claim.claim, claim.published, claim.differs):
            assert text.endswith(".")
        for setting, questions in claim.asked.items():
            assert len(judge(claim, setting, made[setting])) == len(questions)
    assert not any(
        name.startswith("follow-up") for name in ENTRIES
    )  # no verdict of the paper's own


def test_runs_are_the_recipe_with_what_they_say():
    plan = Plan(seeds=1)
    trials = {trial.label: trial for trial in follow_up_trials(plan)}
    assert trials["exact"].key == plan.trials(["exact"], ["standalone"])[0].key
    assert resolve(trials["dropcov"].config).model.drop == "adaptive"
    assert resolve(trials["exact, nog+olr"].config).conditioning == "nog+olr"
    assert len({trial.key for trial in trials.values()}) == len(FILE.runs)
    assert all(trial.tags["method"] == label for label, trial in trials.items())


def test_verdicts_follow_the_differences():
    assert verdicts("seb", "miniature", rows({"seb": -3})) == ["supported"]
    assert verdicts("seb", "miniature", rows({"seb": 3})) == ["contradicted"]
    assert verdicts("seb", "miniature", rows()) == ["inconclusive"]
    assert verdicts("seb", "miniature", rows({"seb": -3}, seeds=1)) == ["inconclusive"]
    assert (
        verdicts("dropcov", "miniature", rows({"dropcov": -3, "exact": -3.5})) == ["supported"] * 3
    )
    assert verdicts("conditioning", "miniature", rows(condition=-1))[0] == "supported"
    assert verdicts("conditioning", "miniature", rows(condition=1))[0] == "contradicted"


def test_runs_without_a_condition_are_left_out():
    known = rows(condition=-1)
    for row in known:
        row["log_condition"] = None
    assert len(verdicts("conditioning", "miniature", known)) == 1


def episodes(count=20, gain=2.0):
    draw = np.random.default_rng(0)
    shared = draw.normal(0, 8, count)
    return [
        FewShotResult(
            head,
            classifier,
            shots,
            None if classifier == CLASSIFIERS[0] else 2.0,
            tuple(70 + shots + gain * (head == "Brownian") + shared + draw.normal(0, 1, count)),
            192,
            1.0,
        )
        for head in FEW_SHOT
        for classifier in CLASSIFIERS
        for shots in SHOTS
    ]


def birds(seeds=2):
    draw = np.random.default_rng(0)
    labels = np.arange(60) % 6
    results = []
    for seed in range(seeds):
        for head in TABLES["all"]:
            right = draw.random(60) < 0.6
            first = np.where(right, labels, (labels + 1) % 6)
            answers = (first[:, None] + np.arange(5)) % 6
            shares = np.tile(np.float32([0.5, 0.2, 0.1, 0.1, 0.05]), (60, 1))
            results.append(HeadResult(head, seed, 5.0, 0.1, answers, shares, labels))
    classes = tuple(f"{k:03d}.Bird" for k in range(6))
    return BirdStudy(TABLES["all"], results, classes, ["bird.png"] * 60, {})


def test_few_shots_are_compared_with_the_same_classifier_and_shots():
    claim = FILE.claims["brownian"]
    (found,) = judge(claim, "few-shot", few_shot_rows(episodes()))
    assert len(found.comparisons) == len(CLASSIFIERS) * len(SHOTS)
    for c in found.comparisons:
        assert c.run.removeprefix("Brownian") == c.baseline.removeprefix("average")
        assert c.difference.mean == pytest.approx(-2, abs=0.8)
    assert found.answer.verdict == "supported"
    (found,) = judge(claim, "few-shot", few_shot_rows(episodes(gain=-2.0)))
    assert found.answer.verdict == "contradicted"


def test_the_page_has_every_claim_and_every_method():
    both = {"patches": rows({"seb": -3}), "patches-norm": rows({"seb": 3})}
    text = followups_page(both, birds(), episodes(), "python -m studies followups").markdown()
    for claim in FILE.claims.values():
        assert f"## {claim.title}" in text
    for method in TABLES["all"]:
        assert f"| {method} |" in text
    assert "✓ supported | ✗ contradicted" in text  # of SEB, in the two networks
    assert "STL DeepBDC (Brownian)" in text
    assert "84.01" in text
    assert "| published |" in text
    assert text.count("![Differences to the average") == len(SHOTS)
    alone = followups_page({"patches": rows()}).markdown()
    assert "Few shots of birds" not in alone
    assert "iSICE: a sparse inverse" in alone  # in the overview, not measured
    assert "## iSICE" not in alone


def test_the_command_makes_the_parts_that_are_asked_for(monkeypatch, tmp_path, capsys):
    calls = []

    def heads(data, output, *, table, heads, seeds, workers):
        calls.append((table, heads, seeds))
        return birds(seeds)

    def few(data, output, *, episodes, workers):
        calls.append(("few-shot", episodes))
        return globals()["episodes"](episodes)

    monkeypatch.setattr("studies.birds.birds.run", heads)
    monkeypatch.setattr("studies.followups.few_shot.run_few_shot", few)
    page = tmp_path / "docs" / "field.md"
    options = [f"--output={tmp_path}", f"--birds={tmp_path}", f"--markdown={page}"]
    assert (
        main(["followups", "birds", "few-shot", *options, "--bird-seeds=1", "--episodes=10"]) == 0
    )
    assert calls == [("all", None, 1), ("few-shot", 10)]
    text = page.read_text(encoding="utf-8")
    assert (
        "python -m studies followups birds few-shot --birds CUB_200_2011 --bird-seeds 1 --episodes 10"
        in text
    )
    assert "In miniature" not in text
    assert (tmp_path / "index.html").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["miniatur"], "no part 'miniatur'.*did you mean|unknown part 'miniatur'"),
        (["birds"], "the part birds needs --birds, the folder of CUB-200-2011"),
    ],
)
def test_the_command_says_what_is_wrong(arguments, message, capsys, tmp_path):
    assert main(["followups", *arguments, f"--output={tmp_path}"]) == 1
    assert re.search(message, capsys.readouterr().err)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("runs: {}\nclaims: {}\n", "must have claims, groups, runs"),
        (
            "runs: {}\ngroups: {}\nclaims: {a: {title: t, reference: r, claim: c, published: p, differs: d, "
            "questions: {moon: []}}}\n",
            "questions are asked in miniature, birds, few-shot, got 'moon'",
        ),
    ],
)
def test_a_wrong_file(text, message):
    with pytest.raises(ValueError, match=message):
        parse_follow_ups(text)


def test_all_settings_are_asked_somewhere():
    assert {s for claim in FILE.claims.values() for s in claim.asked} == set(SETTINGS)


@pytest.mark.slow
def test_tiny_trainings_are_judged(monkeypatch, tmp_path):
    plan = Plan("patches-norm", seeds=2)
    tiny = {"max_epochs": 1, "limit_train_batches": 3, "limit_val_batches": 1}
    change = {"trainer": tiny, "spectrum_every": 1, "model": {"milestones": []}}
    trials = [
        replace(trial, config=merge(trial.config, change))
        for trial in follow_up_trials(plan)
        if trial.label in ("exact", "exact, nog", "exact, nog+olr", "dropcov", "seb")
    ]
    monkeypatch.setattr(Plan, "epochs", 1)
    folders = run_trials(trials, tmp_path, workers=2)
    results = [run_record(t, folder) for t, folder in zip(trials, folders, strict=True)]
    found = follow_up_rows(Measured(plan, trials, results, tmp_path))
    assert all(row["log_condition"] > 0 for row in found)
    assert len(judge(FILE.claims["conditioning"], "miniature", found)) == 2
    assert len(judge(FILE.claims["seb"], "miniature", found)) == 1
    assert "log10 of the condition" in followups_page({"patches-norm": found}).markdown()
