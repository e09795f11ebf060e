"""Precision and smoothness: verdicts from made-up runs, and the measure on a real network."""

import pytest

from paper_runs import study
from rootpool.nn import method_names
from rootpool.paper import smoothness
from rootpool.paper.bench import Bench
from rootpool.paper.networks import UNTRAINED, _network, features
from rootpool.paper.published import load_published
from rootpool.paper.smoothness import measure_precision, measure_smooth_gradients

FIGURES = load_published().figures
BENCH = Bench(seeds=4)


def answers(result):
    return [a["shows"] for a in result.series["answers"]]


@pytest.fixture
def betas(monkeypatch):
    """Smoothness as a table says, instead of as networks do."""
    found = {}

    def records(study, methods, dtypes=("float64",)):
        return [
            {
                "run": method,
                "method": method,
                "dtype": dtype,
                "moment": moment,
                "seed": 0,
                "beta": found.get(method, 1.0),
            }
            for method in methods
            for dtype in dtypes
            for moment in (UNTRAINED, "trained")
        ]

    monkeypatch.setattr(smoothness, "smoothness_records", records)
    return found


@pytest.mark.parametrize(
    ("errors", "beta", "expected"),
    [
        ({"mpn-cov, float32": 80.0}, 50.0, [True, True, True]),
        ({"isqrt-cov, float32": 25.0}, 1.0, [False, False, False]),
    ],
)
def test_precision(betas, errors, beta, expected):
    betas["mpn-cov"] = beta
    found = study(BENCH, BENCH.precisions(), errors, noise=0.01)
    result = measure_precision(FIGURES["precision-and-smoothness"], found)
    assert answers(result) == expected
    assert result.shows is all(expected)


@pytest.mark.parametrize(
    ("errors", "beta", "expected"),
    [
        ({}, 1.5, [True, True]),
        ({"svd-taylor": 10.0}, 1.0, [True, False]),
        ({}, 9.0, [False, True]),
    ],
)
def test_remedies(betas, errors, beta, expected):
    betas["svd-taylor"] = beta
    found = study(BENCH, BENCH.comparison(), errors, noise=0.01)
    result = measure_smooth_gradients(FIGURES["smooth-gradients"], found)
    assert answers(result) == expected
    assert {r["row"] for r in result.records} == set(method_names("ours", "paper"))


def test_a_network_as_a_run_starts_with():
    trial = BENCH.comparison(1, ["mpn-cov"])[0]
    network, again = (_network(trial, UNTRAINED, None) for _ in range(2))
    maps = features(network)
    assert maps.shape == (32, 64, 7, 7)
    assert maps.equal(features(again))  # the same weights and the same batch
    other = _network(BENCH.comparison(2, ["mpn-cov"])[1], UNTRAINED, None)
    assert not maps.equal(features(other))
