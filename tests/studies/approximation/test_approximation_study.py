"""The trainings and the page that take the approximate root apart."""

import math
import random
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from rootpool.train import merge
from rootpool.train.settings import resolve
from rootpool.train.study import run_trials
from studies.approximation.answers import LEARNED
from studies.approximation.failure import pairs_below_rounding, watch_training
from studies.approximation.filters import VARIANTS
from studies.approximation.page import approximation_page
from studies.approximation.setting import Setting, half_effect
from studies.approximation.study import Heads, approximation_trials, setting_of
from studies.paper.command import run_record
from studies.paper.plan import Measured, Plan

SHORT = {"trainer": {"max_epochs": 1, "limit_train_batches": 3}}


def test_every_variant_is_the_recipe_with_another_method():
    plan = Plan(seeds=2)
    trials = approximation_trials(plan)
    assert [t.label for t in trials[::2]] == [variant.label for variant in VARIANTS]
    assert len({trial.key for trial in trials}) == len(trials)
    reference = resolve(plan.trials(["exact"], ["standalone"])[0].config)
    for trial in trials[::2]:
        settings = resolve(trial.config)
        assert settings.model.method == trial.tags["method"]
        model = replace(settings.model, method=reference.model.method, method_options=None)
        assert replace(settings, model=model) == reference


def test_a_recipes_own_method_is_trained_once():
    plan = Plan(seeds=1)
    keys = {trial.label: trial.key for trial in approximation_trials(plan)}
    for method in ("exact", "isqrt-cov"):
        assert keys[method] == plan.trials([method], ["standalone"])[0].key


def made_up(name, effect=0.0, seeds=4):
    """Errors with noise that runs of a seed share; ``effect`` belongs to the value of Newton-Schulz."""
    draw = random.Random(0)
    rows = [
        {
            "run": v.label,
            "seed": seed,
            "val_error": 40.0
            + seed
            + effect * (v.tags.get("forward") == "Newton-Schulz")
            + draw.gauss(0, 0.01),
        }
        for seed in range(seeds)
        for v in VARIANTS
    ]
    learned = {
        "learned-power": [{"exponent": 0.7}, {"exponent": 0.7}],
        "learned-mixture": [{f"weight_{k}": 0.5**k for k in range(11)}],
    }
    return Setting(name, "Made up: error.", rows, learned)


TRACE = [
    {
        "step": k,
        "loss": 2.0,
        "gradient": 0.01 * 10**k,
        "exact": 0.01,
        "error": 10.0**k - 0.9,
        "ties": 0.25,
        "kernel": 1e8,
        "sample": 7,
        "sample_share": 0.5,
        "finite": True,
    }
    for k in range(3)
] + [{"step": 3, "loss": math.nan, "finite": False}]


def test_the_halves_are_told_apart():
    setting = made_up("a network", effect=-1.0)
    forward, backward = (half_effect(setting, half) for half in ("forward", "backward"))
    assert forward.mean == pytest.approx(-1, abs=0.02)
    assert forward.clear
    assert backward.mean == pytest.approx(0, abs=0.02)


def test_the_page_says_what_the_numbers_say():
    best = made_up("birds, held-out", effect=-1.0)
    tested = made_up("birds, test", effect=-1.0)
    page = approximation_page([made_up("patches", effect=1.0), best], {"watched": TRACE}, tested)
    text = page.markdown()
    assert "| value: Newton-Schulz | 42.50" in text  # 40 + 1.5 + 1
    assert "✗ patches: with the value of Newton-Schulz, worse by 0.99" in text
    assert "✓ birds, held-out: with the value of Newton-Schulz, better by 1.01" in text
    # The same number of pairs, and opposed.
    assert "| all together | −0.0" in text
    assert "Over all networks together, with the value of Newton-Schulz the error is" in text
    assert "in 2 of 3 steps (watched)" in text
    assert (
        "value of Newton-Schulz is clearly better in 1 of 2 networks, clearly worse in 1," in text
    )
    assert "watched: 25 % of the pairs of eigenvalues are closer than rounding." in text
    assert "In 2 of 3 steps the error of the gradient is larger" in text
    assert "In step 3 the numbers stop being finite." in text
    assert "The exponent becomes 0.70" in text
    assert "Chosen on birds, held-out:" in text
    assert "nan" not in text


def test_a_page_without_the_rest():
    text = approximation_page([made_up("patches")], {}).markdown()
    assert "What breaks" not in text
    assert "birds" not in text


@pytest.mark.slow
def test_a_setting_keeps_what_was_learned(tmp_path):
    """A real training in another process, which knows the methods of the studies."""
    plan = Plan(seeds=1)
    variants = [v for v in VARIANTS if v.label in LEARNED]
    trials = [
        replace(t, config=merge(t.config, SHORT))
        for t in approximation_trials(plan, None, variants)
    ]
    folders = run_trials(trials, tmp_path, workers=1)
    results = [run_record(t, folder) for t, folder in zip(trials, folders, strict=True)]
    setting = setting_of(Measured(plan, trials, results, tmp_path))
    ((power,), (mixture,)) = (setting.learned[name] for name in LEARNED)
    assert power["exponent"] != 0.5
    assert power["exponent"] == pytest.approx(0.5, rel=0.5)
    assert len(mixture) == 11
    assert setting.offset("learned-power") == math.inf  # there is no root to compare with


def test_runs_with_different_seeds_are_ordered_by_their_differences():
    hard = [{"run": "exact", "seed": k, "val_error": 40.0 + 10 * k} for k in range(4)]
    worse = [{"run": "learned-power", "seed": k, "val_error": 41.0 + 10 * k} for k in range(2)]
    setting = Setting("a network", "", [*hard, *worse])
    assert setting.offset("exact") == 0
    assert setting.offset("learned-power") == pytest.approx(1)
    assert setting.seeds == "2 or 4 seeds"


def test_what_answers_rest_on_can_have_more_seeds():
    trials = approximation_trials(Plan(seeds=1), deciding=3)
    counts = Counter(trial.label for trial in trials)
    assert {counts[v.label] for v in VARIANTS if v.decides} == {3}
    assert {counts[v.label] for v in VARIANTS if not v.decides} == {1}
    assert {"exact", "isqrt-cov", "newton-exact", "learned-power"} <= {
        v.label for v in VARIANTS if v.decides
    }


def test_heads_are_chosen_on_held_out_images_and_measured_on_others(monkeypatch):
    calls = []

    def run(data, output, *, table, heads, seeds, measure_on, workers):
        calls.append((measure_on, seeds, list(heads)))
        better = {"exponent 0.3": 4, "exact": 2}
        results = [
            SimpleNamespace(
                head=head, seed=k, accuracy=70 + better.get(head, 0) + k, learned={}, diverged=False
            )
            for k in range(seeds)
            for head in heads
        ]
        return SimpleNamespace(results=results, files=["a.png"] * 7)

    monkeypatch.setattr("studies.birds.birds.run", run)
    heads = Heads("CUB_200_2011", "runs/birds", None)
    held_out = heads.held_out(2, 3)
    assert held_out.offset("exponent 0.3") == pytest.approx(-2)
    assert held_out.seeds == "2 or 3 seeds"
    tested = heads.tested(held_out, 3)
    deciding = [v.label for v in VARIANTS if v.decides]
    others = [v.label for v in VARIANTS if not v.decides]
    assert calls == [
        ("held-out", 2, others),
        ("held-out", 3, deciding),
        ("test", 3, [*deciding, "exponent 0.3"]),
    ]
    assert "error on 7 test images" in tested.about


def test_pairs_below_rounding_by_counting():
    lam = torch.tensor([[4.0, 2.0, 2.0 + 2e-7, 1e-9, 0.0]]).sort(descending=True).values
    expected = sum(
        abs(float(lam[0, i]) - float(lam[0, j])) <= 4 * 2**-23 for i in range(5) for j in range(i)
    )
    assert expected == 2
    assert pairs_below_rounding(lam) == pytest.approx(expected / 10)


@pytest.mark.slow
def test_a_watched_training():
    published = watch_training(Plan(), "mpn-cov", "float32", steps=2)
    fused = watch_training(Plan(), "mpn-cov, fused", "float64", steps=2)
    assert [r["step"] for r in published] == [0, 1]
    assert published[0]["loss"] == pytest.approx(fused[0]["loss"], rel=1e-3)
    assert published[0]["exact"] == pytest.approx(fused[0]["exact"], rel=1e-2)
    # Ours is the exact gradient up to the rounding of float32 outside.
    assert fused[0]["error"] < 1e-4 < published[0]["error"]
    # 49 positions: 48 eigenvalues are not zero, and 16 of 64 are equal.
    assert fused[0]["ties"] >= 16 * 15 / (64 * 63)
    assert published[0]["kernel"] > 1e5
    assert "kernel" not in fused[0]
