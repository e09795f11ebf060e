"""Bounds by search against formulas, and against other spectra."""

import pytest
import torch

from rootpool.linalg import Ordinary, Pade, PowerIteration, Taylor, Truncated
from studies.paper.bounds import bound_by_search, newton_bound_by_search, of_pairs

EPS = {torch.float64: 2.0**-52, torch.float32: 2.0**-23}


def tie(i, j, eps):
    return (i, j) == (eps, eps)


def neighbours(i, j, eps):
    """One unit in the last place apart, which at eps is eps squared."""
    return (i, j) == (eps * (1 + eps), eps)


# For each rule the largest entry by formula, and the pair of eigenvalues that has it.
BOUNDS = {
    Ordinary(): (lambda eps: eps**-2, neighbours),
    Truncated(1e10): (lambda eps: 1e10, lambda i, j, eps: i - j <= 1e-10),
    Truncated(100.0): (lambda eps: 100.0, lambda i, j, eps: i - j <= 0.01),
    PowerIteration(20): (lambda eps: 20 / eps, tie),
    Taylor(9): (lambda eps: 10 / eps, tie),
    Taylor(100): (lambda eps: 101 / eps, tie),
    Pade(100): (lambda eps: eps**-2, neighbours),
}


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("rule", BOUNDS, ids=str)
def test_search_and_formula_agree_on_the_size_and_the_pair(rule, dtype):
    bound, reached = BOUNDS[rule]
    searched, (smaller, larger) = bound_by_search(of_pairs(rule), dtype)
    assert searched == pytest.approx(bound(EPS[dtype]), rel=1e-6)
    assert reached(larger, smaller, EPS[dtype])


@pytest.mark.parametrize("iterations", [1, 2, 5, 10])
def test_newton_schulz_has_its_steepest_slope_at_zero(iterations):
    value, where = newton_bound_by_search(iterations)
    assert value == pytest.approx(1.5**iterations)
    assert where == (0, 0)
