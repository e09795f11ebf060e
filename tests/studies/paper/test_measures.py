"""The measures of trained entries: outcomes from made-up runs, and the networks that they look into."""

import pytest
import torch

import paper_runs
from paper_runs import outcomes, place
from studies.engine import network
from studies.engine.command import measure_entry
from studies.engine.kept import Kept
from studies.engine.network import Network
from studies.engine.training import Place, train
from studies.paper import kernel_bounds, smoothness
from studies.paper.command import load_paper
from studies.paper.networks import TRAINED, UNTRAINED, features, moments

STUDY = load_paper()
PATCHES = Network("patches", seeds=4)


def measured(entry, tmp_path, errors=None, **options):
    found = place(STUDY, PATCHES, entry, errors, **options)
    return measure_entry(STUDY, STUDY.entries[entry], [found], Kept(tmp_path))


SVD = ("svd-pade", "svd-taylor", "svd-newton", "svd-trunc", "svd-topn", "mpn-cov")


@pytest.mark.parametrize(
    ("worse", "expected"), [(2.0, ["not seen", "seen"]), (-2.0, ["not seen", "opposite"])]
)
def test_training_curves(worse, expected, tmp_path):
    """Made-up curves are parallel, so that the gap stays what it is."""
    errors = dict.fromkeys(SVD, 20.0 + worse)
    assert outcomes(measured("figure:training-curves", tmp_path, errors))[:2] == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [((3e14, 5e13, 2e13), ["seen", "seen"]), ((2e13, 5e13, 3e14), ["opposite", "not seen"])],
)
def test_condition_numbers(condition, expected, tmp_path):
    one = measured("table:condition-number", tmp_path, condition=condition)
    assert outcomes(one)[:2] == expected
    assert one.blocks[0].rows[0][2] == "3.41e14"  # as printed
    # What is kept does not change; two parts follow by argument.
    assert outcomes(one)[2:] == ["not seen", "seen", "opposite"]


@pytest.mark.parametrize(
    ("ratio", "lowest", "expected"),
    [((3.0, 1.5), 1.01, ["seen", "seen"]), ((1.5, 3.0), 1.2, ["opposite", "not seen"])],
)
def test_eigenvalue_ratio(ratio, lowest, expected, tmp_path, monkeypatch):
    rows = [{"moment": TRAINED, "seed": 0, "mean": 2.0, "lowest": lowest}]
    monkeypatch.setattr("studies.paper.dynamics._ratios", lambda place: rows)
    one = measured("figure:eigenvalue-ratio", tmp_path, ratio=ratio)
    # The released SVD-PI has no gradient, so that nothing can be said of its training.
    assert outcomes(one) == [*expected, "seen", "not testable", "opposite"]


@pytest.mark.parametrize(
    ("errors", "beta", "expected"),
    [
        ({"mpn-cov, float32": None}, (50.0, 60.0), ["seen", "seen", "seen"]),
        ({"isqrt-cov, float32": 25.0}, (1.0, 1.1), ["not seen", "opposite", "opposite"]),
        ({}, (0.5, 60.0), ["not seen", "seen", "not seen"]),  # twice is within the interval
    ],
)
def test_precision(errors, beta, expected, tmp_path, monkeypatch):
    def records(place, dtypes):
        return [
            {"run": m, "method": m, "precision": d, "moment": TRAINED, "seed": s, "beta": b}
            for m, betas in (("mpn-cov", beta), ("isqrt-cov", (1.0, 1.0)))
            for d in dtypes
            for s, b in enumerate(betas)
        ]

    monkeypatch.setattr(smoothness, "smoothness_records", records)
    one = measured("figure:precision-and-smoothness", tmp_path, errors, noise=0.01)
    assert outcomes(one) == expected


def test_a_table_as_published_and_one_of_ours_have_the_same_rows(tmp_path):
    one = measured("table:alexnet", tmp_path, {"svd-pade": None})
    (published, table, *_) = one.blocks
    names = [row[0] for row in table.rows]
    assert [row[0] for row in published.rows] == names[:-2]
    assert names[:2] == ["iSQRT-COV", "SVD-Pade"]
    assert names[-2:] == ["mpn-cov, fused (not in this table)", "exact (not in this table)"]
    newton, pade = table.rows[:2]
    assert pade[2] is None  # no seed converged standalone
    assert pade[4].value == pytest.approx(21.5, abs=0.2)  # 20, and the mean of four seeds
    assert newton[4] == newton[2]  # which has no second stage, so that tables repeat it


def test_the_seeds_of_few_images_cannot_show_a_tenth_of_a_percent(tmp_path):
    one = measured("text:seeds", tmp_path)
    assert outcomes(one) == ["not testable", "opposite"]
    assert "3600 images alone make an error of 0.6" in one.answers["without batch norm"][0].said


def test_failures_by_protocol(tmp_path):
    one = measured("own:rescue", tmp_path, {"svd-pade": None, "mpn-cov, float32": None})
    assert outcomes(one) == ["not seen", "seen", "seen"]  # one method of six, and all of one
    rows = {row[0]: row[1:] for row in one.blocks[0].rows}
    assert rows["svd-pade"] == ["4 of 4", "0 of 4"]


def test_how_often_bounds_are_reached(monkeypatch, tmp_path):
    shares = {"svd-pade": 0.1, "svd-taylor": 0.3, "svd-trunc": 0.1, "svd-topn": 0.1, "mpn-cov": 0.2}
    found = [{"method": m, "moment": TRAINED, "share": s} for m, s in shares.items()]
    monkeypatch.setattr(kernel_bounds, "_shares", lambda place, sizes: found)
    sizes = dict.fromkeys((*shares, "svd-newton", *(f"{m}, fused" for m in shares)), 1e10)
    monkeypatch.setattr(
        kernel_bounds, "_sizes", lambda table, kept: {**sizes, "svd-pade": float("inf")}
    )
    one = measured("table:upper-bounds-appendix", tmp_path)
    smaller, rarer = one.answers["without batch norm"]
    assert (smaller.outcome, rarer.outcome) == ("opposite", "not seen")
    assert rarer.said == "so it is with svd-pade, svd-trunc, svd-topn"


@pytest.mark.slow
def test_moments_of_a_training(tmp_path, monkeypatch):
    monkeypatch.setattr(network, "recipe", paper_runs.tiny_recipe)
    monkeypatch.setattr("rootpool.train.study._train_all", paper_runs.run_here)
    small = Network("patches", seeds=1)
    trials = small.trials(STUDY.runs["ordinary"], published=True)
    runs = list(train(trials, tmp_path).values())
    found = list(moments(Place.of_runs(small, runs, [], 10.0), ["mpn-cov"]))
    assert [m.name for m in found] == [UNTRAINED, "after 1 epochs of Newton-Schulz", TRAINED]
    maps = [features(m) for m in found]
    assert maps[0].shape == (8, 64, 7, 7)
    assert all(torch.equal(m.batch[0], found[0].batch[0]) for m in found)
    assert not torch.equal(maps[0], maps[1])
    assert not torch.equal(maps[1], maps[2])
    beta = smoothness._beta(found[0])
    assert 0 < beta < float("inf")
