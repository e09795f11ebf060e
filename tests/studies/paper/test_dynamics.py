"""Curves and spectra: verdicts on made-up runs."""

import pytest
import torch

from paper_runs import study, verdicts
from studies.paper import dynamics
from studies.paper.dynamics import (
    measure_condition_numbers,
    measure_eigenvalue_ratio,
    measure_training_curves,
    measure_warm_up_curves,
)
from studies.paper.networks import Network
from studies.paper.plan import Plan
from studies.paper.published import load_published

PUBLISHED = load_published()
FIGURES = PUBLISHED.figures
SVD = PUBLISHED.groups["svd"]
PLAN = Plan(seeds=4)
YES, NO = "supported", "contradicted"


def curves(errors, early=()):
    """Standalone runs; ``early`` adds to the training errors of the SVD methods, by epoch."""
    figure = FIGURES["training-curves"]
    found = study(PLAN, PLAN.comparison(figure.methods), errors)
    for trial, run in zip(found.trials, found.results, strict=True):
        for epoch, more in zip(run["curves"][: len(early)], early, strict=True):
            svd = trial.tags["method"] in SVD
            epoch["train_error"] += more * (1 + trial.tags["seed"] / 50) * svd
    return measure_training_curves(figure, found)


def test_a_gap_that_shrinks_and_stays():
    as_claimed = {**dict.fromkeys(SVD, 25.0), "isqrt-cov": 20.0, "svd-pade": 22.0}
    result = curves(as_claimed, early=(9, 9, 9, 9, 4, 4))
    assert verdicts(result) == [YES, YES, YES]
    assert result.verdict == YES
    gaps = [r["measured"] for r in result.records]
    assert gaps == pytest.approx([13.5, 8.5, 4.5], abs=0.5)


def test_a_gap_that_grows_and_turns():
    errors = {**dict.fromkeys(SVD, 18.0), "isqrt-cov": 20.0, "svd-pade": 25.0}
    result = curves(errors, early=(-9,) * 6)
    assert verdicts(result) == [NO, NO, NO]
    assert result.verdict == NO


@pytest.mark.parametrize(
    ("isqrt", "pade", "expected"),
    [(20.2, 20.0, [YES, YES]), (15.0, 20.0, [NO, YES]), (20.2, 15.0, [YES, NO])],
)
def test_warm_up_curves(isqrt, pade, expected):
    figure = FIGURES["warm-up-curves"]
    trials = PLAN.comparison(figure.methods)
    found = study(PLAN, trials, {"isqrt-cov": isqrt, "svd-pade, hybrid": pade})
    result = measure_warm_up_curves(figure, found)
    assert verdicts(result) == expected
    assert min(r["epoch"] for r in result.series["curves"]) == 4  # one before the switch
    assert {r["protocol"] for r in result.series["curves"]} == {"hybrid", "standalone"}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ((3e14, 5e13, 2e13), [YES, YES]),
        ((3e13, 2e13, 1e13), [YES, NO]),
        ((1e13, 5e13, 3e14), [NO, NO]),
    ],
)
def test_condition_numbers(condition, expected):
    found = study(PLAN, PLAN.trials(["mpn-cov"]), condition=condition)
    result = measure_condition_numbers(PUBLISHED.tables["condition-number"], found)
    assert verdicts(result) == expected
    measured = {(r["row"], r["column"]): r["measured"] for r in result.records if "measured" in r}
    for column, value in zip(("Epoch 1", "Epoch 11", "Epoch 21"), condition, strict=True):
        assert measured["MPN-COV", column] == pytest.approx(value, rel=0.01)
    assert measured["numerical rank", "Epoch 1"] == 48
    assert result.settings["our epochs"] == "1, 5, 7"


@pytest.mark.parametrize(
    ("ratio", "eigenvalues", "expected"),
    [
        ((3.0, 1.5), (2.0, 1.99), [YES, YES]),
        ((3.0, 1.5), (2.0, 1.0), [YES, NO]),
        ((1.5, 3.0), (2.0, 1.99), [NO, YES]),
    ],
)
def test_eigenvalue_ratio(monkeypatch, ratio, eigenvalues, expected):
    network = Network(
        "mpn-cov", 0, "untrained", torch.nn.Identity(), (torch.ones(1), torch.ones(1))
    )
    # Two channels that alternate have a diagonal covariance: the squares of their amplitudes.
    signs = torch.tensor([[1.0, 1.0, -1.0, -1.0], [1.0, -1.0, 1.0, -1.0]])
    maps = (torch.tensor(eigenvalues).sqrt()[:, None] * signs)[None]
    monkeypatch.setattr(dynamics, "networks", lambda study, methods: [network])
    monkeypatch.setattr(dynamics, "features", lambda network: maps)
    found = study(PLAN, PLAN.trials(["mpn-cov"]), ratio=ratio)
    result = measure_eigenvalue_ratio(FIGURES["eigenvalue-ratio"], found)
    assert verdicts(result) == expected
    lowest = next(r["measured"] for r in result.records if r["row"].startswith("lowest"))
    assert lowest == pytest.approx(eigenvalues[0] / eigenvalues[1], rel=1e-5)
