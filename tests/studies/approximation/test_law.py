"""The law: its rule of failure, its tests, and what is measured without training."""

import pytest
import torch

from rootpool.report.records import read_records, write_records
from studies.approximation import law, layer
from studies.engine.questions import proportion

LAW = law.load_law()


def rows(failing=(), method="mpn-cov", form="published", precision="float64", seeds=5):
    """Training errors of one arm that fails at some scales, and of the control."""
    common = {"diverged": False, "lambda_1": 12.0}
    arm = [
        {"method": method, "form": form, "precision": precision, "k": k, "seed": seed, **common}
        | {"train_error": 85.0 if k in failing else 51.0, "run": f"{method} {k}"}
        for k in (-6, -4, -2, 0, 2)
        for seed in range(seeds)
    ]
    control = [
        {"method": "exact", "form": "ours", "precision": "float64", "k": k, "seed": s, **common}
        | {"train_error": 50.0, "run": f"exact {k}"}
        for k in (0, 2)
        for s in range(seeds)
    ]
    return law.judged([*arm, *control], LAW.limit)


@pytest.mark.parametrize(
    ("failing", "outcome"),
    [((0, 2), "seen"), ((-6, -4), "opposite"), ((), "not seen"), ((-6, -4, -2, 0, 2), "not seen")],
)
def test_an_arm_follows_the_law_if_more_runs_fail_above(failing, outcome):
    arms = law._arms(rows(failing))
    assert law._tests(arms)[0]["mpn-cov, published, float64"].outcome == outcome


def test_few_seeds_show_nothing_and_arms_share_the_correction():
    one = law._tests(law._arms(rows((0, 2), seeds=1)))[0]
    assert one["mpn-cov, published, float64"].outcome == "not seen"
    alone = law._tests(law._arms(rows((0,), seeds=5)))[0]
    assert alone["mpn-cov, published, float64"].outcome == "seen"  # 5 of 10 against none: p = 0.016
    several = rows((0,)) + [
        r for name in "abcd" for r in rows((), method=name) if r["method"] == name
    ]
    assert law._tests(law._arms(several))[0]["mpn-cov, published, float64"].outcome == "not seen"


def test_a_run_fails_if_it_diverges_or_ends_far_above_the_control():
    given = rows((0,))
    assert {r["k"] for r in given if r["failed"]} == {0}
    ended = {**given[0], "diverged": True, "train_error": None}
    assert law.judged([ended, *given[-10:]], 10.0)[0]["failed"]
    # Of another machine, whose control ended elsewhere.
    other = [{**row, "record": 2, "train_error": row["train_error"] + 30} for row in given]
    assert {r["k"] for r in law.judged([*given, *other], 10.0) if r["failed"]} == {0}


def test_intervals_of_shares_are_exact():
    assert proportion(5, 5) == pytest.approx((0.025**0.2, 1.0))  # (1 - p)^5 = 2.5 %
    assert proportion(0, 5) == pytest.approx((0.0, 1 - 0.025**0.2))


def test_the_scale_decides_what_is_above_the_floor():
    X = torch.randn(4, 24, 10, generator=torch.Generator().manual_seed(0)).relu()
    noise = layer.calibrate(X)
    low, high = (layer._noise(X, "mpn-cov-published", k, torch.float64, noise) for k in (-6, 6))
    assert low["above"] == 0
    assert low["predicted_above"] < 1e-6
    assert low["gap"] is low["predicted_gap"] is None
    assert high["above"] == 1
    assert high["predicted_above"] > 0.95
    assert high["lambda_1"] == 4.0**12 * low["lambda_1"]
    assert 1e-2 < high["gap"] / high["predicted_gap"] < 1e2
    found = {k: layer._gradient(X, "mpn-cov-published", k, torch.float64).double() for k in (-6, 6)}
    exact = layer._gradient(X.double(), "exact", 0, torch.float64)
    errors = {k: float((g - exact).norm() / exact.norm()) for k, g in found.items()}
    assert errors[-6] < 1e-3
    assert errors[-6] == pytest.approx(low["predicted_error"], rel=20)


def test_the_page_is_written_from_a_record(tmp_path):
    """Nothing is run: two files of numbers give the tables, the picture and the answers."""
    write_records(rows((0, 2)), tmp_path / law.RECORDS[0])
    records = [
        {"features": name, "method": method, "precision": p, "k": k, "channels": 64}
        | {"positions": 49, "zeroed": 0.02 if p == "float32" else 0.0}
        | {"lambda_1": 12 * 4.0**k, "above": float(k > -2), "predicted_above": float(k > -2)}
        | {"gap": 1e-18 if k > -2 else None, "predicted_gap": 2e-18 if k > -2 else None}
        | {"error": 1e-3 if k > -2 else 1e-6, "predicted_error": 1e-3 if k > -2 else 1e-6}
        for name in ("small", "224")
        for method in layer.FORMS
        for p in ("float64", "float32")
        for k in layer.SCALES
    ]
    write_records(records, tmp_path / law.RECORDS[1])
    page = tmp_path / "law.md"
    law.main(record=str(tmp_path), output=str(tmp_path / "out"), markdown=str(page))
    text = page.read_text(encoding="utf-8")
    assert "5 of 5 (0.48 to 1.00)" in text
    assert "10 of 10 above and 0 of 10 below" in text
    assert "| all, float64 | 0 of 10 | 10 of 10 |" in text
    assert "at most 2.0%, 2.0%, 2.0%, 2.0% of them" in text
    assert "SVD-Pade as published, float64: the same." in text  # not tried, and said so
    assert len(read_records(tmp_path / law.RECORDS[1])) == len(records)
