"""Floors, truncation and gradient rules of matrix functions, and the derivatives that do not exist."""

import pytest
import torch

import matrices
import oracles
from matrices import relative_error, symmetric
from named_functions import OURS, functions
from rootpool.linalg import (
    RULES,
    Taylor,
    logm,
    sqrtm,
)


@pytest.mark.parametrize(
    ("name", "rule"),
    [*((name, None) for name in OURS), *(("sqrt", r) for r in ("ordinary", "pade", "degenerate"))],
)
def test_floor_has_the_derivative_of_the_floored_function(name, rule):
    lam = torch.tensor([-0.5, 0.1, 0.1, 0.5, 1.0, 2.0], dtype=torch.float64)
    A = matrices.with_spectrum(lam)
    weight, direction = matrices.random_symmetric(6, 6), matrices.random_symmetric(6, 6, seed=1)

    def f(A):
        return (OURS[name](A, eigenvalue_floor=0.3, rule=rule) * weight).sum()

    def brute_force(A):
        lam, U = torch.linalg.eigh(A)
        raised = U @ torch.diag(lam.clamp(min=0.3)) @ U.mT
        return (OURS[name](symmetric(raised)) * weight).sum()

    assert f(A) == pytest.approx(float(brute_force(A)), rel=1e-12)
    (gradient,) = torch.autograd.grad(f(A.requires_grad_()), A)
    numeric = oracles.central_difference(brute_force, A.detach(), direction)
    assert (gradient * direction).sum() == pytest.approx(float(numeric), rel=1e-6)


@functions
@pytest.mark.parametrize("count", [1, 3, 6, 100])
def test_keep_largest_has_the_derivative_of_the_truncated_function(name, count):
    A = matrices.matrix("separated")
    weight, direction = matrices.random_symmetric(6, 6), matrices.random_symmetric(6, 6, seed=1)

    def f(A):
        return (OURS[name](A, keep_largest=count) * weight).sum()

    def brute_force(A):
        lam, U = torch.linalg.eigh(A)
        U, full = U[:, -count:], OURS[name](A)
        return (U @ U.mT @ full @ U @ U.mT * weight).sum()

    assert f(A) == pytest.approx(float(brute_force(A)), rel=1e-12)
    (gradient,) = torch.autograd.grad(f(A.requires_grad_()), A)
    numeric = oracles.central_difference(brute_force, A.detach(), direction)
    assert (gradient * direction).sum() == pytest.approx(float(numeric), rel=1e-6)


@pytest.mark.parametrize("rule", [None, "pade", "taylor"])
def test_keep_largest_across_a_tie_shares_nothing(rule):
    A = torch.eye(4).double().requires_grad_()
    sqrtm(A, keep_largest=2, rule=rule).trace().backward()
    assert torch.equal(A.grad, torch.diag(A.grad.diagonal()))
    assert A.grad.trace() == 1.0


@pytest.mark.parametrize("rule", RULES)
@functions
def test_rule_fused_with_the_function_is_right_at_ties(name, rule):
    G = matrices.random_symmetric(3, 3)
    A = (torch.eye(3).double() * 2).requires_grad_()
    (exact,) = torch.autograd.grad(OURS[name](A), A, G)
    (fused,) = torch.autograd.grad(OURS[name](A, rule=rule), A, G)
    assert torch.allclose(fused, exact, rtol=1e-14)


@functions
def test_rules_that_approximate_well_agree_with_the_exact_gradient(name):
    A = matrices.matrix("separated").requires_grad_()
    (exact,) = torch.autograd.grad(OURS[name](A).sum(), A)
    for rule in ("ordinary", "truncated", "pade", "degenerate", Taylor(300)):
        (fused,) = torch.autograd.grad(OURS[name](A, rule=rule).sum(), A)
        assert relative_error(fused, exact) < 1e-13


@pytest.mark.parametrize("degree", [0, 3, 10])
def test_taylor_rule_fused_is_its_series(degree):
    A = matrices.matrix("separated").requires_grad_()
    G = matrices.random_symmetric(6, 6)
    (got,) = torch.autograd.grad(sqrtm(A, rule=Taylor(degree)), A, G)
    lam, U = torch.linalg.eigh(A.detach())
    K = oracles.taylor_kernel(lam, degree)
    L = K * (lam.sqrt()[:, None] - lam.sqrt()[None, :]) + torch.diag(0.5 / lam.sqrt())
    assert torch.allclose(got, U @ (L * (U.mT @ G @ U)) @ U.mT, rtol=1e-12)


def test_third_derivative_is_refused():
    A = matrices.matrix("separated").requires_grad_()
    (first,) = torch.autograd.grad(logm(A).sum(), A, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), A, create_graph=True)
    with pytest.raises(RuntimeError, match="third derivatives"):
        second.sum().backward()
