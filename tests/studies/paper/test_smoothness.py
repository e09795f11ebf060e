"""Precision and smoothness: verdicts from made-up runs, and the measure on a real network."""

import pytest

from paper_runs import study, verdicts
from studies.paper import smoothness
from studies.paper.networks import UNTRAINED, features, networks
from studies.paper.plan import Measured, Plan
from studies.paper.published import load_published
from studies.paper.smoothness import measure_precision, measure_smooth_gradients

FIGURES = load_published().figures
PLAN = Plan(seeds=4)
YES, NO = "supported", "contradicted"


@pytest.fixture
def betas(monkeypatch):
    """Smoothness as a table says, instead of as networks do."""
    found = {}

    def records(study, methods, dtypes=("float64",)):
        return [
            {
                "run": method,
                "method": method,
                "precision": dtype,
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
        ({"mpn-cov, float32": 80.0}, 50.0, [YES, YES, YES]),
        ({"isqrt-cov, float32": 25.0}, 1.0, [NO, NO, NO]),
    ],
)
def test_precision(betas, errors, beta, expected):
    betas["mpn-cov"] = beta
    figure = FIGURES["precision-and-smoothness"]
    found = study(PLAN, PLAN.precisions(figure.methods), errors, noise=0.01)
    result = measure_precision(figure, found)
    assert verdicts(result) == expected
    assert {r["protocol"] for r in result.series["curves"]} == {"standalone"}
    assert {r["precision"] for r in result.series["curves"]} == {"float64", "float32"}


@pytest.mark.parametrize(
    ("errors", "beta", "expected"),
    [
        ({}, 1.5, [YES, YES]),
        ({"svd-taylor": 10.0}, 1.0, [YES, NO]),
        ({}, 9.0, [NO, YES]),
    ],
)
def test_remedies(betas, errors, beta, expected):
    betas["svd-taylor"] = beta
    figure = FIGURES["smooth-gradients"]
    found = study(PLAN, PLAN.comparison(figure.methods), errors, noise=0.01)
    result = measure_smooth_gradients(figure, found)
    assert verdicts(result) == expected
    assert {r["row"] for r in result.records} >= set(figure.methods)


def test_a_network_as_a_run_starts_with():
    plan = Plan(seeds=2)
    found = study(plan, plan.trials(["mpn-cov"], ["standalone"]))
    (network, other), (again, _) = (_untrained(found) for _ in range(2))
    maps = features(network)
    assert maps.shape == (32, 64, 7, 7)
    assert maps.equal(features(again))  # the same weights and the same batch
    assert not maps.equal(features(other))  # another seed


def _untrained(found):
    """The networks of two seeds; trained ones need files that are not there."""
    first = found.trials[:1], found.results[:1]
    second = found.trials[1:], found.results[1:]
    return [next(networks(Measured(found.plan, *part), ["mpn-cov"])) for part in (first, second)]
