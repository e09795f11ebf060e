"""Floors, truncation and gradient rules of matrix functions, and the derivatives that do not exist."""

import pytest
import torch

import matrices
import oracles
from matrices import relative_error, symmetric
from named_functions import OURS, functions
from rootpool.linalg import RULES, Taylor, sqrtm


def raised(name, A):
    lam, U = torch.linalg.eigh(A)
    return OURS[name](symmetric(U @ torch.diag(lam.clamp(min=0.3)) @ U.mT))


def truncated(count):
    def brute_force(name, A):
        U = torch.linalg.eigh(A)[1][:, -count:]
        return U @ U.mT @ OURS[name](A) @ U @ U.mT

    return brute_force


BELOW = matrices.with_eigenvalues([-0.5, 0.1, 0.1, 0.5, 1.0, 2.0])
OPTIONS = [
    *((name, {"eigenvalue_floor": 0.3}, BELOW, raised) for name in OURS),
    *(
        ("sqrt", {"eigenvalue_floor": 0.3, "rule": rule}, BELOW, raised)
        for rule in ("ordinary", "pade", "degenerate")
    ),
    *(
        (name, {"keep_largest": count}, matrices.matrix("separated"), truncated(count))
        for name in OURS
        for count in (1, 3, 6, 100)
    ),
]


@pytest.mark.parametrize(("name", "options", "A", "brute_force"), OPTIONS)
def test_value_and_derivative_of_the_changed_function(name, options, A, brute_force):
    weight, direction = matrices.random_symmetric(6, 6), matrices.random_symmetric(6, 6, seed=1)
    A = A.clone().requires_grad_()
    F = OURS[name](A, **options)
    assert relative_error(F, brute_force(name, A)) < 1e-12
    (gradient,) = torch.autograd.grad((F * weight).sum(), A)
    numeric = oracles.central_difference(
        lambda A: (brute_force(name, A) * weight).sum(), A.detach(), direction
    )
    assert (gradient * direction).sum() == pytest.approx(float(numeric), rel=1e-6)


@pytest.mark.parametrize("rule", [None, "pade", "taylor"])
def test_keep_largest_across_a_tie_shares_nothing(rule):
    A, G = torch.eye(4).double().requires_grad_(), matrices.random_symmetric(4, 4)
    P = sqrtm(A, keep_largest=2, rule=rule)
    P.backward(G)
    assert relative_error(A.grad, P.detach() @ G @ P.detach() / 2) < 1e-14


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
