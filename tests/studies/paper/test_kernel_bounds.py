"""The table of bounds: sizes by search against formulas, and how often they are reached."""

import math

import pytest
import torch

from studies.engine.kept import Kept
from studies.engine.network import run_method
from studies.engine.page import NOWHERE
from studies.paper.command import load_paper
from studies.paper.kernel_bounds import share_at_bound, upper_bounds

EPS = 2.0**-52


def test_each_bound_is_compared_with_the_printed_one(tmp_path):
    found = upper_bounds(load_paper().entries["table:upper-bounds"], [], Kept(tmp_path))
    outcomes = {name: finding.outcome for name, finding in found.findings[NOWHERE].items()}
    assert outcomes["svd-taylor"] == outcomes["svd-trunc"] == "seen"
    assert outcomes["svd-pade"] == outcomes["svd-topn"] == outcomes["unbounded"] == "opposite"
    said = found.findings[NOWHERE]["unbounded"].said
    assert "SVD-Newton has 57.7" in said  # 1.5 to the power of ten iterations
    shown = {row[0]: row[3].value for row in found.blocks[0].rows if str(row[0]).endswith("fused")}
    formulas = {"Taylor": 101 / EPS, "Trunc": 1e10, "TopN": EPS**-2, "Pade": EPS**-2}
    assert shown.pop("SVD, fused") == pytest.approx(EPS**-2)  # one unit in the last place apart
    assert shown == pytest.approx({f"SVD-{name}, fused": b for name, b in formulas.items()})


@pytest.mark.parametrize(
    ("method", "bound", "pairs"),
    [
        ("mpn-cov", math.inf, 1),  # the two zeros
        ("svd-trunc", 1e10, 1),
        ("svd-taylor", 101 / EPS, 1),
        ("svd-pade", math.inf, 1),
    ],
)
def test_pairs_at_the_bound_by_counting(method, bound, pairs):
    lam = torch.tensor([[3.0, 1.0, 0.5, 0.0, 0.0]], dtype=torch.float64)
    assert share_at_bound(run_method(method), lam, bound) == pytest.approx(pairs / 10)
