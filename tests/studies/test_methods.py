"""Methods that only studies need, against definitions that do not share their code."""

import pytest
import torch

import matrices
from matrices import relative_error
from rootpool.nn import CovariancePool, covariance, covariance_pool, resolve_method
from studies.methods import LearnedMixture, LearnedPower, NewtonExact


def filtered(P, h):
    """``sqrt(tr P) h(P / tr P) / |h|``, by torch's decomposition."""
    lam, U = torch.linalg.eigh(P / P.trace())
    F = U @ torch.diag(h(lam.clamp_min(0))) @ U.mT
    return F * P.trace().sqrt() / F.norm()


@pytest.mark.parametrize(
    ("method", "h", "tolerance"),
    [
        (LearnedPower(0.3), lambda a: a**0.3, 1e-7),  # the exponent is a float32
        (LearnedMixture(), lambda a: a**0.5, 0.01),
    ],
)
def test_filters_begin_as_powers(method, h, tolerance):
    X = matrices.random(2, 4, 30)
    expected = torch.stack([filtered(P, h) for P in covariance(X)])
    pool = CovariancePool(4, method, output="matrix")
    assert relative_error(pool(X).detach(), expected) < tolerance
    assert (
        relative_error(covariance_pool(X, method, output="matrix").detach(), expected) < tolerance
    )


@pytest.mark.parametrize("name", ["learned-power", "learned-mixture"])
def test_filters_are_trained_with_the_pooling(name):
    pool, X = CovariancePool(4, name).double(), matrices.random(2, 4, 9)
    (parameter,) = pool.parameters()

    def loss(logs):
        return torch.func.functional_call(pool, {"learned.logs": logs}, X).square().sin().sum()

    assert torch.autograd.gradcheck(loss, parameter.detach().clone().requires_grad_())
    pool.method = "exact"
    assert not list(pool.parameters())


def test_newton_exact_has_the_value_of_the_iteration_and_the_exact_gradient():
    X, G = matrices.random(2, 4, 9), matrices.random(2, 4, 4, seed=1)
    results = []
    for method in (NewtonExact(3), "exact", resolve_method("isqrt-cov", iterations=3)):
        Y = X.clone().requires_grad_()
        Q = covariance_pool(Y, method, output="matrix")
        results.append((Q.detach(), torch.autograd.grad(Q, Y, G)[0]))
    assert relative_error(results[0][0], results[2][0]) < 1e-13
    assert relative_error(results[0][1], results[1][1]) < 1e-7
