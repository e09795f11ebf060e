"""Values and derivatives of matrix functions, against 80 digits, at ties and at singular matrices."""

import functools
import math

import mpmath
import pytest
import torch

import matrices
import oracles
from matrices import TOLERANCE, relative_error, symmetric
from named_functions import DEGREE, OURS, SEMIDEFINITE, functions
from rootpool import linalg as la


@functools.cache
def near_tie(gap: float) -> tuple[torch.Tensor, torch.Tensor]:
    A = matrices.with_spectrum(torch.tensor([1, 1 + gap, 2, 2 + gap], dtype=torch.float64))
    return A, matrices.random_symmetric(4, 4, seed=3)


@functools.cache
def expected(name: str, gap: float) -> list[torch.Tensor]:
    return oracles.derivatives(name, *near_tie(gap))


@functions
@pytest.mark.parametrize("gap", [1e-1, 1e-3, 1e-6, 1e-9, 1e-12, 1e-15, 0])
@pytest.mark.parametrize("scale", [2.0**-40, 1.0, 2.0**40])  # exact factors near 1e-12 and 1e12
def test_value_and_gradient_to_the_last_digits(name, gap, scale):
    A, G = near_tie(gap)
    value, gradient = expected(name, gap)
    # f(c A) = c^p f(A), log(c A) = log(c) I + log(A)
    shift = torch.eye(4).double() * math.log(scale) if name == "log" else 0
    for dtype, tolerance in TOLERANCE.items():
        B = (scale * A).to(dtype).requires_grad_()
        F = OURS[name](B)
        F.backward(G.to(dtype))
        assert relative_error(F.detach(), scale ** DEGREE[name] * value + shift) < tolerance
        assert relative_error(B.grad, scale ** (DEGREE[name] - 1) * gradient) < tolerance


@pytest.mark.parametrize("exponent", [-1, 0, 1, 2, 3])
@pytest.mark.parametrize("kind", ["separated", "repeated", "huge", "tiny"])
def test_powers_that_are_products(exponent, kind):
    A, G = matrices.matrix(kind), matrices.random_symmetric(6, 6)
    power = lambda A: torch.linalg.matrix_power(A, exponent)  # noqa: E731
    value, derivative = torch.func.jvp(power, (A,), (G,))
    B = A.clone().requires_grad_()
    P = la.powm(B, exponent)
    (gradient,) = torch.autograd.grad(P, B, G)
    assert relative_error(P.detach(), value) < 1e-12
    assert torch.allclose(gradient, derivative, rtol=1e-11, atol=1e-12 * derivative.abs().max())


def test_named_powers_are_the_named_functions():
    A = matrices.random_definite(3, 5, 5)
    assert torch.equal(la.powm(A, 0.5), la.sqrtm(A))
    assert torch.equal(la.powm(A, -0.5), la.inv_sqrtm(A))
    for name, function in la.FUNCTIONS.items():
        assert torch.equal(la.matrix_function(A, name), la.matrix_function(A, function))
    assert torch.equal(la.matrix_function(A, la.Power(0.3)), la.powm(A, 0.3))


# ---------------------------------------------------------------------------- semi-definite input


@pytest.mark.parametrize("name", SEMIDEFINITE)
def test_eigenvalues_at_round_off_are_zeros_and_nothing_flows_between_them(name):
    A = torch.diag(torch.tensor([1.0, -1e-17, 2.0, 0.0], dtype=torch.float64)).requires_grad_()
    F = OURS[name](A)
    assert F[1, 1] == 0
    (g,) = torch.autograd.grad(F, A, matrices.random_symmetric(4, 4))
    assert (g[1::2, 1::2] == 0).all()


def test_covariances_of_denormal_numbers_are_semidefinite():
    """Half of the smallest number in each entry moves zero eigenvalues by many of it."""
    X, smallest = matrices.random(34, 3), 2.0**-1074
    A = symmetric(X @ X.mT * 20 * smallest)
    F = la.sqrtm(A) * 2.0**537
    assert (F @ F - A * 2.0**1000 * 2.0**74).abs().max() < 34


# ------------------------------------------------------------------------------- odd input and rules


@functions
@pytest.mark.parametrize("shape", [(0, 3, 3), (2, 0, 0), (1, 1), (2, 0, 3, 3)])
def test_empty_and_tiny_shapes(name, shape):
    A = torch.full(shape, 2.0, dtype=torch.float64).requires_grad_()
    F = OURS[name](A)
    (gradient,) = torch.autograd.grad(F.sum(), A)
    number = oracles.MATRIX_FUNCTIONS[name]  # a 1 x 1 matrix is a number
    torch.testing.assert_close(F.detach(), torch.full_like(A, float(number(2))))
    torch.testing.assert_close(gradient, torch.full_like(A, float(mpmath.diff(number, 2))))


def test_rule_that_cannot_take_an_empty_batch():
    A = matrices.random_definite(8, 80, 80).requires_grad_()
    rule = lambda lam: la.Taylor(9)(lam) + 0 * lam.max()  # noqa: E731
    (got,) = torch.autograd.grad(la.sqrtm(A, rule=rule).sum(), A)
    (expected,) = torch.autograd.grad(la.sqrtm(A, rule=la.Taylor(9)).sum(), A)
    assert torch.equal(got, expected)


def test_user_defined_function():
    class Square(la.ScalarFunction):
        domain = "any"

        def values(self, lam):
            return lam * lam

        def derivatives(self, lam):
            return 2 * lam

        def divided_differences(self, lam):
            return lam.unsqueeze(-1) + lam.unsqueeze(-2)

    A = matrices.random_symmetric(4, 4).requires_grad_()
    F = la.matrix_function(A, Square())
    assert torch.allclose(F, A @ A)
    (got,) = torch.autograd.grad(F.sum(), A)
    (expected,) = torch.autograd.grad((A @ A).sum(), A)
    assert torch.allclose(got, symmetric(expected))
    assert torch.allclose(
        torch.autograd.grad(la.matrix_function(A, Square(), rule="pade").sum(), A)[0], got
    )


def test_an_overflow_of_the_loss_passes_through():
    A = torch.eye(3).requires_grad_()
    la.sqrtm(A).backward(torch.full((3, 3), torch.inf))
    assert not A.grad.isfinite().all()
