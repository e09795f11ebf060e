"""The statements hold, and what they rest on is what independent arithmetic says."""

import math

import mpmath
import pytest
import torch

import matrices
import oracles
from rootpool.nn import covariance_pool
from rootpool.paper.theory import (
    THEORY,
    exact_gradient,
    pade_coefficients_by_precision,
    pade_rank,
    power_iteration_is_taylor,
    power_iteration_rate,
    ties,
)
from rootpool.paper.theory.common import relative_error
from rootpool.paper.theory.reference import REFERENCE_KERNELS, pade_in_precision, reference_gradient
from rootpool.paper.theory.roots import feature_gradient, root_gradient_in_50_digits


@pytest.mark.parametrize("entry", THEORY)
def test_every_statement_shows(entry):
    result = THEORY[entry]()
    assert result.entry == entry
    assert result.records
    assert result.shows, result.verdict
    assert result.claim.endswith(".")
    assert result.verdict.endswith(".")


def test_six_statements():
    assert len(THEORY) == 6


# ------------------------------------------------------------------------------------------- Pade


def test_rank_against_floating_point():
    """The all-ones system has one singular value, n, and the rest are zero."""
    for record in pade_rank((10, 50)).records:
        n = record["unknowns"]
        assert record["rank"] == torch.linalg.matrix_rank(torch.ones(n, n)).item()
        assert record["free"] == n - 1


def test_coefficients_by_precision():
    """p_1 at 15, 20, 30 and 50 digits, as found by others with the published code."""
    result = pade_coefficients_by_precision()
    assert [round(r["p_1"], 2) for r in result.records] == [1.21, 1.06, 2.04, 0.38]
    for record in result.records:  # p = r and q = r (1 - x) for some r with r_0 = 1
        assert record["p_1"] - record["q_1"] == pytest.approx(1, abs=1e-6)
    assert any(v < 0 for v in (r["value_at_1"] for r in result.records))


def test_coefficients_solve_the_equations():
    """Q times the geometric series is P, whatever the coefficients are."""
    p, q = pade_in_precision(100, 30)
    assert len(p) == len(q) == 51
    for k, coefficient in enumerate(p):
        assert coefficient == pytest.approx(math.fsum(q[: k + 1]), abs=1e-9)


def test_sometimes_the_solver_notices():
    with pytest.raises(ZeroDivisionError, match="singular"):
        pade_in_precision(20, 30)


# -------------------------------------------------------------------------------- power iteration


def test_rate_of_power_iteration_in_exact_terms():
    """With an equal share of every eigenvector the error is the root of a sum of powers."""
    result = power_iteration_rate((0.5, 1.0), 20)
    for record in result.records:
        lam = torch.linspace(record["ratio"], 0, 7, dtype=torch.float64)
        expected = float((lam ** (2 * record["iteration"])).sum().sqrt())
        assert record["error"] == pytest.approx(expected, rel=1e-5)
        assert record["predicted"] == record["ratio"] ** record["iteration"]


def test_power_iteration_that_converges_slower_than_it_should_is_noticed(monkeypatch):
    from rootpool.paper.theory import power_iteration

    monkeypatch.setattr(
        power_iteration,
        "_errors_of_power_iteration",
        lambda ratio, n: [0.95**k for k in range(n + 1)],
    )
    assert not power_iteration_rate().shows


def test_power_iteration_is_not_the_series_with_another_number_of_terms(monkeypatch):
    from rootpool.paper.theory import power_iteration

    original = power_iteration._difference
    assert original(torch.tensor([4.0, 3.9, 1.0]).double(), 0, 5) < 1e-14
    records = power_iteration_is_taylor((5,)).records
    assert [r["eigenvector"] for r in records] == [1, 2, 3]
    monkeypatch.setattr(power_iteration, "_difference", lambda *_: 0.1)
    assert not power_iteration_is_taylor((5,)).shows


# ------------------------------------------------------------------------------------------- ties


def test_the_reference_is_the_gradient_where_eigenvalues_are_separated():
    """Finite differences of the root of the covariance."""
    X, G = matrices.random(4, 30), matrices.random(4, 4, seed=1)

    def loss(X):
        A = X - X.mean(1, keepdim=True)
        lam, U = torch.linalg.eigh(A @ A.mT / 30)
        return ((U * lam.sqrt()) @ U.mT * G).sum()

    direction = matrices.random(4, 30, seed=2)
    numeric = float(oracles.central_difference(loss, X, direction))
    for name, (_, kernel) in REFERENCE_KERNELS.items():
        gradient = reference_gradient(X, G, kernel)
        tolerance = 0.05 if name == "SVD-Taylor" else 1e-7
        assert float((gradient * direction).sum()) == pytest.approx(numeric, rel=tolerance), name


@pytest.mark.parametrize("shape", [(4, 9), (4, 4), (6, 3)])
def test_the_exact_feature_gradient_by_finite_differences(shape):
    X, G = matrices.random(*shape), matrices.random(shape[0], shape[0], seed=1)

    def loss(X):
        A = (X - X.mean(1, keepdim=True)) / math.sqrt(shape[1])
        U, s, _ = torch.linalg.svd(A, full_matrices=False)
        return ((U * s) @ U.mT * G).sum()

    gradient, largest = feature_gradient(X, G)
    direction = matrices.random(*shape, seed=2)
    numeric = float(oracles.central_difference(loss, X, direction))
    assert float((gradient * direction).sum()) == pytest.approx(numeric, rel=1e-6)
    assert 0.5 <= largest <= 1


def test_ties_name_all_kinds():
    result = ties()
    kinds = {"separated", "fewer positions than channels", "equal", "equal up to rounding"}
    assert {r["spectrum"] for r in result.records} == kinds
    assert len(result.records) == 4 * (len(REFERENCE_KERNELS) + 1)
    for record in result.records:
        if record["spectrum"] == "equal" and record["method"] != "exact":
            assert not record["reference_error"] < 0.1
            assert record["our_error"] < 1e-14
    assert "SVD and SVD-Pade give none" in result.verdict
    assert "SVD-Trunc and SVD-Taylor lose it even fused" in result.verdict


def test_exact_ties_are_those_of_the_layer():
    """The map of equal eigenvalues, through the layer and with torch's own eigh, which gives NaN."""
    from rootpool.paper.theory.roots import _maps

    X = _maps()["equal"]
    P = X @ X.mT / 8
    assert torch.equal(P, torch.diag(torch.tensor([4.0, 4, 4, 1, 1, 1, 1]).double()))
    P.requires_grad_()
    lam, U = torch.linalg.eigh(P)
    (gradient,) = torch.autograd.grad(((U * lam.sqrt()) @ U.mT).sum(), P)
    assert gradient.isnan().any()
    leaf = X[None].clone().requires_grad_()
    covariance_pool(leaf).sum().backward()
    assert leaf.grad.isfinite().all()


# --------------------------------------------------------------------------------- exact gradient


def test_fifty_digits_against_the_block_matrix():
    """Another oracle: f([[A, E], [0, A]]) holds the derivative, which is self-adjoint."""
    A, G = matrices.random_definite(3, 3), matrices.random_symmetric(3, 3, seed=1)
    _, expected = oracles.value_and_derivative("sqrt", A, G)
    assert relative_error(root_gradient_in_50_digits(A, G), expected) < 1e-15
    assert mpmath.mp.dps == 50  # as the oracles set it; the statement leaves it alone


def test_exact_gradient_covers_gaps_and_precisions():
    result = exact_gradient((0, -6))
    assert {(r["gap"], r["dtype"]) for r in result.records} == {
        (gap, dtype) for gap in (1.0, 1e-6, 0.0) for dtype in ("float64", "float32")
    }
    at_a_tie = [r for r in result.records if r["gap"] == 0]
    for record in at_a_tie:
        assert math.isnan(record["error"]) == (record["way"] == "torch.linalg.eigh")
