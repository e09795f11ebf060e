"""Distances of Gaussians, and canonical correlations: identities, low rank, close arguments, errors."""

import pytest
import torch

import matrices
from matrices import relative_error
from rootpool.linalg import bures_wasserstein, canonical_correlations, frechet_distance
from tolerances import allowed


@pytest.mark.parametrize("dtype", matrices.DTYPES)
def test_commuting_matrices_have_the_distance_of_their_roots(dtype):
    lam = torch.tensor([[0.0, 0.0, 1.0, 4.0], [1.0, 0.0, 1.0, 9.0]], dtype=torch.float64)
    Q = matrices.orthogonal(4)
    A, B = (((Q * row) @ Q.mT).to(dtype) for row in lam)
    assert abs(bures_wasserstein(A, B) - 2) < 10 * allowed(dtype, 4)


@pytest.mark.parametrize("step", [1e-3, 1e-6, 1e-9])
def test_distance_of_close_matrices_keeps_its_digits(step):
    """For B = (1 + e)^2 A the distance is e^2 tr A, far below the rounding of the two traces."""
    A = matrices.random_definite(5, 5)
    expected = step**2 * A.trace()
    assert torch.isclose(bures_wasserstein(A, (1 + step) ** 2 * A), expected, rtol=3e-15 / step)
    X = matrices.random(9, 5)
    centred = X - X.mean(0)
    expected = step**2 * centred.square().sum() / 8
    got = frechet_distance(centred, (1 + step) * centred)
    assert torch.isclose(got, expected, rtol=3e-15 / step)


def test_gradient_at_equal_arguments_is_zero():
    for f, A in (
        (bures_wasserstein, matrices.random_definite(4, 4)),
        (frechet_distance, matrices.random(3, 6)),
    ):
        A.requires_grad_()
        value = f(A, A.detach())
        value.backward()
        assert 0 <= value < 1e-28 * A.detach().norm() ** 2
        assert A.grad.norm() < 1e-13


@pytest.mark.parametrize(
    ("dtype", "scale"), [(torch.float32, 2.0**-80), (torch.float64, 2.0**-600)]
)
def test_gradient_of_features_whose_squares_underflow(dtype, scale):
    """It is linear in the scale, although the distance itself is below the range."""
    X, Y = matrices.random(3, 5, dtype=dtype), matrices.random(4, 5, dtype=dtype, seed=1)

    def gradient(factor):
        Z = (factor * X).requires_grad_()
        return torch.autograd.grad(frechet_distance(Z, factor * Y), Z)[0]

    assert relative_error(gradient(scale) / scale, gradient(1.0)) < allowed(dtype, 5)


def test_correlations_of_linear_maps_are_one_and_do_not_depend_on_them():
    X = matrices.random(2, 9, 3)
    Y = torch.cat([X @ matrices.random(3, 3, seed=1), matrices.random(2, 9, 2, seed=2)], -1)
    assert torch.allclose(canonical_correlations(X, Y), torch.ones(2, 3).double())
    Z = matrices.random(2, 9, 2, seed=3)
    moved = canonical_correlations(X @ matrices.random(3, 3, seed=4) + 7, Z)
    assert torch.allclose(moved, canonical_correlations(X, Z), atol=1e-12)


def test_constant_features_are_ordinary():
    X = torch.ones(5, 3, requires_grad=True)
    correlations = canonical_correlations(X, matrices.random(5, 2, dtype=torch.float32), 0.1)
    assert (correlations == 0).all()
    (gradient,) = torch.autograd.grad(frechet_distance(X, torch.ones(4, 3)), X)
    assert (gradient == 0).all()
