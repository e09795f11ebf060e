"""The question of the title: effects that were put in are found, and a training that is watched."""

import pytest

import paper_runs
from paper_runs import place
from studies.approximation import measures
from studies.approximation.command import load_approximation
from studies.approximation.failure import watch_training
from studies.approximation.watched import _told
from studies.engine import network
from studies.engine.kept import Kept
from studies.engine.network import Network
from studies.engine.training import Place, train

STUDY = load_approximation()
PATCHES = Network("patches", seeds=4)


def two_by_two(effect):
    """The effect belongs to the forward pass of Newton-Schulz."""
    errors = {"newton-exact": 20.0 + effect, "isqrt-cov": 20.0 + effect}
    return place(STUDY, PATCHES, "why:halves", errors, noise=0.01)


def test_the_halves_are_told_apart():
    found = measures.halves(STUDY.entries["why:halves"], [two_by_two(-1.0)], None)
    forward, backward = (found.findings["without batch norm"][h] for h in ("forward", "backward"))
    assert (forward.outcome, backward.outcome) == ("seen", "not seen")
    assert forward.said.startswith("better by 1.0")
    assert "the seeds can tell differences of" in backward.said
    cells = found.blocks[1].rows
    assert cells[1][1].value - cells[0][1].value == pytest.approx(-1, abs=0.02)


def test_every_network_has_its_own_row():
    good, bad = two_by_two(-1.0), two_by_two(1.0)
    other = Place("another", "small", bad.rows, bad.network, bad.runs)
    table = measures.halves(STUDY.entries["why:halves"], [good, other], None).blocks[0]
    assert [row[0] for row in table.rows] == [good.name, "another"]
    assert [row[1].value for row in table.rows] == pytest.approx([-1, 1], abs=0.02)


def test_a_sweep_is_measured_from_the_root():
    found = place(STUDY, PATCHES, "why:iterations", {"newton-fused, 1 iteration": 25.0}, noise=0.01)
    points = measures._points(found, "iterations", {1.0: 0.0, 5.0: 1.0, 100.0: 2.0})
    assert [p["place"] for p in points] == [0.0, 1.0, 2.0]
    assert points[0]["mean"] == pytest.approx(5, abs=0.02)
    assert points[2] == {"place": 2.0, "mean": 0.0, "low": None, "high": None}


TRACE = [
    {"step": k, "loss": 2.0, "gradient": 0.01 * 10**k, "exact": 0.01, "error": 10.0**k - 0.9}
    | {"ties": 0.25, "sample": 7, "sample_share": 0.5, "finite": True}
    for k in range(3)
] + [{"step": 3, "loss": float("nan"), "finite": False}]


def test_a_watched_training_is_told():
    told = _told(TRACE)
    assert told.outcome == "seen"
    assert "so it is in 2 of 3 steps; 25 % of the pairs" in told.said
    assert "100 times as long as the exact one" in told.said
    assert told.said.endswith("in step 3 the numbers stop being finite")


@pytest.mark.slow
def test_a_watched_training():
    published = watch_training("patches", "mpn-cov", "float32", steps=2)
    fused = watch_training("patches", "mpn-cov, fused", "float64", steps=2)
    assert [r["step"] for r in published] == [0, 1]
    assert published[0]["loss"] == pytest.approx(fused[0]["loss"], rel=1e-3)
    assert published[0]["exact"] == pytest.approx(fused[0]["exact"], rel=1e-2)
    # Ours is the exact gradient up to the rounding of float32 outside.
    assert fused[0]["error"] < 1e-4 < published[0]["error"]
    # 49 positions: 48 eigenvalues are not zero, and 16 of 64 are equal.
    assert fused[0]["ties"] >= 16 * 15 / (64 * 63)
    assert published[0]["kernel"] > 1e5
    assert "kernel" not in fused[0]


@pytest.mark.slow
def test_what_was_learned_is_read_from_the_runs(tmp_path, monkeypatch):
    """Real trainings in another process, which knows the methods of the studies."""
    monkeypatch.setattr(network, "recipe", paper_runs.tiny_recipe)
    small = Network("patches", seeds=1)
    runs = list(train(small.trials(STUDY.runs["learned"]), tmp_path, workers=1).values())
    found = measures.learned(
        STUDY.entries["why:learned"], [Place.of_runs(small, runs, [], 10.0)], Kept(tmp_path)
    )
    ((name, exponent),) = found.blocks[1].rows
    assert name == "learned-power, without batch norm"
    assert exponent.value != 0.5
    assert exponent.value == pytest.approx(0.5, rel=0.5)
