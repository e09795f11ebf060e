"""Matrix functions of odd input, and at the ends of the range."""

import functools

import pytest
import torch

import matrices
from matrices import symmetric
from named_functions import OURS, functions
from rootpool.linalg import (
    ScalarFunction,
    Taylor,
    inv_sqrtm,
    logm,
    matrix_function,
    powm,
    sqrtm,
)

# The same functions of numbers.
NUMBERS = {
    "sqrt": torch.sqrt,
    "inv_sqrt": torch.rsqrt,
    "log": torch.log,
    "power 0.3": lambda x: x**0.3,
    "power -0.7": lambda x: x**-0.7,
}


@functions
@pytest.mark.parametrize("shape", [(0, 3, 3), (2, 0, 0), (1, 1), (2, 0, 3, 3)])
def test_empty_and_tiny_shapes(name, shape):
    A = torch.full(shape, 2.0, dtype=torch.float64).requires_grad_()
    F = OURS[name](A)
    (gradient,) = torch.autograd.grad(F.sum(), A)
    numbers = A.detach().clone().requires_grad_()  # a 1 x 1 matrix is a number
    expected = NUMBERS[name](numbers)
    torch.testing.assert_close(F, expected)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected.sum(), numbers)[0])


# --------------------------------------------------------------------------------------- bad input


def test_bad_input():
    with pytest.raises(ValueError, match=r"sqrtm expects \(..., n, n\), got \(3, 4\); .* use svd"):
        sqrtm(torch.zeros(3, 4))
    with pytest.raises(ValueError, match=r"A\[1\] differs from its transpose by 1; symmetrise"):
        logm(torch.stack([torch.eye(2), torch.tensor([[1.0, 1.0], [0.0, 1.0]])]))
    with pytest.raises(ValueError, match=r"powm: A\[0\] has NaN"):
        powm(torch.full((1, 2, 2), torch.nan), 0.3)
    with pytest.raises(ValueError, match="exponent must be finite, got inf"):
        powm(torch.eye(2), float("inf"))
    with pytest.raises(ValueError, match="unknown function 'cos'; choose from sqrt, inv_sqrt, log"):
        matrix_function(torch.eye(2), "cos")
    with pytest.raises(TypeError, match="ScalarFunction, which knows its divided differences"):
        matrix_function(torch.eye(2), torch.cos)
    with pytest.raises(ValueError, match="eigenvalue_floor must be positive and finite, got 0"):
        sqrtm(torch.eye(2), eigenvalue_floor=0)
    with pytest.raises(TypeError, match=r"sqrtm expects float32 or float64, got torch.int64; cast"):
        sqrtm(torch.eye(2, dtype=torch.int64), eigenvalue_floor=1e-3)
    with pytest.raises(ValueError, match="keep_largest must be an integer >= 1, got 0"):
        sqrtm(torch.eye(2), keep_largest=0)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_broken_upper_triangle_is_an_error_too(bad):
    A = torch.eye(3)
    A[0, 1] = bad
    with pytest.raises(ValueError, match="sqrtm: A has NaN or infinite entries"):
        sqrtm(A)


def test_rule_that_cannot_take_an_empty_batch():
    A = matrices.random_definite(8, 80, 80).requires_grad_()
    rule = lambda lam: Taylor(9)(lam) + 0 * lam.max()  # noqa: E731
    (got,) = torch.autograd.grad(sqrtm(A, rule=rule).sum(), A)
    (expected,) = torch.autograd.grad(sqrtm(A, rule=Taylor(9)).sum(), A)
    assert torch.equal(got, expected)


def test_user_defined_function():
    class Square(ScalarFunction):
        domain = "any"

        def values(self, lam):
            return lam * lam

        def derivatives(self, lam):
            return 2 * lam

        def divided_differences(self, lam):
            return lam.unsqueeze(-1) + lam.unsqueeze(-2)

    A = matrices.random_symmetric(4, 4).requires_grad_()
    F = matrix_function(A, Square())
    assert torch.allclose(F, A @ A)
    (got,) = torch.autograd.grad(F.sum(), A)
    (expected,) = torch.autograd.grad((A @ A).sum(), A)
    assert torch.allclose(got, symmetric(expected))
    assert torch.allclose(
        torch.autograd.grad(matrix_function(A, Square(), rule="pade").sum(), A)[0], got
    )


# ------------------------------------------------------------------------------- ends of the range


@pytest.mark.parametrize(
    ("function", "scale", "dtype"),
    [
        (functools.partial(powm, exponent=2), 1e200, torch.float64),
        (functools.partial(powm, exponent=-1), 1e-310, torch.float64),
        (functools.partial(powm, exponent=-1), 1e-40, torch.float32),
    ],
)
def test_values_beyond_the_range_are_an_error(function, scale, dtype):
    A = torch.stack([torch.eye(3), scale * torch.eye(3).double()]).to(dtype)
    with pytest.raises(torch.linalg.LinAlgError, match=r"powm overflowed .* for A\[1\]; scale"):
        function(A)


@pytest.mark.parametrize(
    ("function", "scale", "dtype"),
    [
        (inv_sqrtm, 1e-250, torch.float64),
        (inv_sqrtm, 1e-30, torch.float32),
        (logm, 1e-310, torch.float64),
        (functools.partial(powm, exponent=-1), 1e-200, torch.float64),
    ],
)
def test_gradients_beyond_the_range_are_an_error(function, scale, dtype):
    A = torch.stack([torch.eye(3), scale * torch.eye(3).double()]).to(dtype).requires_grad_()
    F = function(A)
    with pytest.raises(
        torch.linalg.LinAlgError, match=r"the derivative of .* overflowed .* for A\[1\]; scale"
    ):
        F.sum().backward()


def test_an_overflow_of_the_loss_passes_through():
    A = torch.eye(3).requires_grad_()
    sqrtm(A).backward(torch.full((3, 3), torch.inf))
    assert not A.grad.isfinite().all()


def test_second_derivatives_beyond_the_range_are_an_error():
    A = (1e-250 * torch.eye(3).double()).requires_grad_()
    (first,) = torch.autograd.grad(sqrtm(A).sum(), A, create_graph=True)
    with pytest.raises(
        torch.linalg.LinAlgError, match=r"the second derivative of Sqrt\(\) overflowed .* for A;"
    ):
        first.sum().backward()
