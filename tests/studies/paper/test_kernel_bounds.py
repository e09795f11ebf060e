"""The tables of bounds: sizes by search, and how often they are reached."""

import math

import pytest
import torch

from paper_runs import study, verdicts
from studies.paper import kernel_bounds
from studies.paper.kernel_bounds import (
    measure_bound_occurrences,
    measure_upper_bounds,
    share_at_bound,
)
from studies.paper.networks import Network
from studies.paper.plan import Plan, run_method
from studies.paper.published import load_published

TABLES = load_published().tables


def test_bounds():
    result = measure_upper_bounds(TABLES["upper-bounds"])
    rows = {r["row"]: r for r in result.records}
    for name in ("SVD-Taylor", "SVD-Trunc"):  # measured and printed are the same three digits
        assert f"{rows[name]['measured']:.2e}" == f"{rows[name]['published']:.2e}"
    assert rows["SVD"]["measured"] == rows["SVD-TopN"]["measured"] == math.inf
    assert rows["SVD-Pade, fused"]["measured"] == 2.0**104 < torch.finfo(torch.float32).max
    assert rows["SVD-Newton"]["measured"] == pytest.approx(1.5**10)
    assert "The bounds of SVD-Taylor and SVD-Trunc are as printed" in result.reason
    assert "6.48e+20 / eps, from which the text derives it, is 2.92e+36" in result.reason


@pytest.mark.parametrize("method", ["mpn-cov", "svd-taylor", "svd-trunc"])
def test_how_often_a_bound_is_reached(method):
    bound = kernel_bounds.largest_entry(method)
    singular = torch.tensor([[1.0, 0.0, 0.0, 0.0]], dtype=torch.float64)
    # Of six pairs three are equal, those of eigenvalues raised to eps.
    assert share_at_bound(run_method(method), singular, bound) == pytest.approx(3 / 6)
    separated = torch.tensor([[4.0, 3.0, 2.0, 1.0]], dtype=torch.float64)
    assert share_at_bound(run_method(method), separated, bound) == 0


def test_occurrences_in_a_network(monkeypatch):
    plan = Plan(seeds=2)
    batch = torch.ones(1), torch.ones(1)
    network = Network("mpn-cov", 0, "untrained", torch.nn.Identity(), batch)
    monkeypatch.setattr(kernel_bounds, "networks", lambda study, methods: [network])
    # Fewer positions than channels: equal eigenvalues in the null space, for every kernel.
    maps = torch.randn(2, 64, 49, generator=torch.Generator().manual_seed(0))
    monkeypatch.setattr(kernel_bounds, "features", lambda network: maps)
    table = TABLES["upper-bounds-appendix"]
    result = measure_bound_occurrences(table, study(plan, plan.trials(["mpn-cov"])))
    assert verdicts(result) == ["contradicted", "contradicted"]
    share = {
        r["row"]: r["measured"] for r in result.records if str(r["column"]).startswith("pairs")
    }
    assert share["SVD"] == pytest.approx(100 * (16 * 15 / 2) / (64 * 63 / 2))
    assert share["SVD-Taylor"] == share["SVD"]
