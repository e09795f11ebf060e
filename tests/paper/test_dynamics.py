"""Curves and spectra: what made-up runs lead to."""

import pytest
import torch

from paper_runs import study
from rootpool.paper import dynamics
from rootpool.paper.bench import Bench
from rootpool.paper.dynamics import (
    measure_condition_numbers,
    measure_eigenvalue_ratio,
    measure_training_curves,
    measure_warm_up_curves,
)
from rootpool.paper.networks import Network
from rootpool.paper.published import load_published
from rootpool.paper.rows import SVD

PUBLISHED = load_published()
BENCH = Bench(seeds=4)


def answers(result):
    return [a["shows"] for a in result.series["answers"]]


def curves(errors, early=()):
    """Standalone runs; ``early`` adds to the training errors of the SVD methods, by epoch."""
    found = study(BENCH, BENCH.comparison(), errors)
    for run in found.results:
        for epoch, more in zip(run["curves"], early, strict=False):
            epoch["train_error"] += more * (1 + run["seed"] / 50) * (run["method"] in SVD)
    return measure_training_curves(PUBLISHED.figures["training-curves"], found)


def test_a_gap_that_shrinks_and_stays():
    as_claimed = {**dict.fromkeys(SVD, 25.0), "isqrt-cov": 20.0, "svd-pade": 22.0}
    result = curves(as_claimed, early=(9, 9, 9, 9, 4, 4))
    assert answers(result) == [True, True, True]
    assert result.shows is True
    gaps = [r["measured"] for r in result.records]
    assert gaps == pytest.approx([13.57, 8.57, 4.57], abs=0.5)


def test_a_gap_that_grows_and_turns():
    errors = {**dict.fromkeys(SVD, 18.0), "isqrt-cov": 20.0, "svd-pade": 25.0}
    result = curves(errors, early=(-9,) * 6)
    assert answers(result) == [False, False, False]
    assert result.shows is False


@pytest.mark.parametrize(
    ("isqrt", "pade", "expected"),
    [(20.2, 20.0, [True, True]), (15.0, 20.0, [False, True]), (20.2, 15.0, [True, False])],
)
def test_warm_up_curves(isqrt, pade, expected):
    found = study(BENCH, BENCH.comparison(), {"isqrt-cov": isqrt, "svd-pade, hybrid": pade})
    result = measure_warm_up_curves(PUBLISHED.figures["warm-up-curves"], found)
    assert answers(result) == expected
    assert min(r["epoch"] for r in result.series["curves"]) == 4  # one before the switch
    assert {r["protocol"] for r in result.series["curves"]} == {"hybrid", "standalone"}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ((3e14, 5e13, 2e13), [True, True]),
        ((3e13, 2e13, 1e13), [True, False]),
        ((1e13, 5e13, 3e14), [False, False]),
    ],
)
def test_condition_numbers(condition, expected):
    found = study(BENCH, BENCH.comparison(methods=["mpn-cov"]), condition=condition)
    result = measure_condition_numbers(PUBLISHED.tables["condition-number"], found)
    assert answers(result) == expected
    measured = {(r["row"], r["column"]): r["measured"] for r in result.records if "measured" in r}
    for column, value in zip(("Epoch 1", "Epoch 11", "Epoch 21"), condition, strict=True):
        assert measured["MPN-COV", column] == pytest.approx(value, rel=0.01)
    assert measured["numerical rank", "Epoch 1"] == 48
    assert result.settings["our epochs"] == "1, 5, 7"


@pytest.mark.parametrize(
    ("ratio", "eigenvalues", "expected"),
    [
        ((3.0, 1.5), (2.0, 1.99), [True, True]),
        ((3.0, 1.5), (2.0, 1.0), [True, False]),
        ((1.5, 3.0), (2.0, 1.99), [False, True]),
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
    found = study(BENCH, BENCH.comparison(methods=["mpn-cov"]), ratio=ratio)
    result = measure_eigenvalue_ratio(PUBLISHED.figures["eigenvalue-ratio"], found)
    assert answers(result) == expected
    lowest = next(r["measured"] for r in result.records if r["row"].startswith("lowest"))
    assert lowest == pytest.approx(eigenvalues[0] / eigenvalues[1], rel=1e-5)
