"""Runs that fail: what counts as one, and whether hybrid training rescues them."""

import pytest

from paper_runs import study, verdicts
from rootpool.train import SettingsError
from studies.paper.convergence import measure_rescue, tells_apart, with_failures
from studies.paper.entries import ENTRIES
from studies.paper.plan import Measured, Plan
from studies.paper.published import load_published
from studies.paper.rows import curve_records, divergences, endings

TEXT = load_published().texts["rescue"]
PLAN = Plan(seeds=6)
YES, NO, OPEN = "supported", "contradicted", "inconclusive"


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ({"mpn-cov": 80.0, "mpn-cov, float32": 80.0}, [YES, YES]),
        ({}, [OPEN, OPEN]),
        ({"mpn-cov, float32": 80.0, "mpn-cov, hybrid, float32": 80.0}, [OPEN, NO]),
    ],
)
def test_rescue(errors, expected):
    result = measure_rescue(TEXT, study(PLAN, ENTRIES["text:rescue"].trials(PLAN), errors))
    assert verdicts(result) == expected
    cells = {(r["row"], r["column"]): r["measured"] for r in result.records}
    assert cells["mpn-cov, float32", "standalone, runs"] == 6
    assert cells["mpn-cov, float32", "standalone, failed"] == 6 * bool(errors)
    assert cells["mpn-cov, fused, float64", "hybrid, failed"] == 0


def test_pairs_that_agree_say_nothing():
    rows = [{"method": "a", "seed": s, "failed": s < 6} for s in range(8)]
    none = [{**row, "failed": False} for row in rows]
    assert tells_apart(rows, none) == pytest.approx(2 * 0.5**6)
    assert tells_apart(rows, rows) == 1.0


def test_a_run_that_diverged_counts_with_the_error_of_guessing():
    plan = Plan(seeds=1)
    found = study(plan, plan.trials(["isqrt-cov", "mpn-cov"], ["standalone"]))
    lost = {"curves": found.results[1]["curves"][:2], "diverged": {"epoch": 2, "step": 140}}
    results = [found.results[0], {**found.results[1], **lost}]
    runs = Measured(plan, found.trials, results).runs()
    assert [row["epoch"] for row in curve_records(runs[1:])] == list(range(8))
    good, bad = with_failures(endings(runs))
    assert not good["failed"]
    assert bad["failed"]
    assert bad["diverged"] == "epoch 2, step 140"
    assert bad["val_error"] == pytest.approx(100 * 17 / 18)
    assert bad["val_error5"] == pytest.approx(100 * 13 / 18)
    assert divergences([good]) == {}
    assert "mpn-cov: seeds 0 (epoch 2, step 140)" in divergences([good, bad])["diverged"]


def test_not_every_epoch_is_validated():
    plan = Plan(seeds=1)
    found = study(plan, plan.trials(["isqrt-cov"], ["standalone"]))
    (run,) = found.runs()
    sparse = [
        epoch if k % 2 else {n: v for n, v in epoch.items() if not n.startswith("val_")}
        for k, epoch in enumerate(run["curves"])
    ]
    (row,) = endings([{**run, "curves": sparse}])
    assert row["val_error"] == sparse[-1]["val_error"]
    assert row["best_error"] == min(epoch["val_error"] for epoch in sparse[1::2])
    with pytest.raises(SettingsError, match="isqrt-cov was not validated after its last epoch"):
        endings([{**run, "curves": sparse[:-1]}])
