"""Roots by products alone: the iteration of the paper, and the best polynomials by what makes them so."""

import pytest
import torch

import matrices
from matrices import relative_error
from rootpool.linalg import Minimax, newton_schulz, sqrtm
from rootpool.linalg.minimax import best_odd_polynomial
from tolerances import allowed


@pytest.mark.parametrize("method", [5, Minimax()])
@pytest.mark.parametrize("shape", [(2, 3, 3), (0, 3, 3), (2, 0, 0)])
def test_zero_and_empty_matrices(shape, method):
    zero, other = torch.zeros(shape), torch.ones(shape) + torch.eye(shape[-1])
    root, inverse = newton_schulz(torch.stack([zero, other]), method)
    assert torch.equal(root[0], zero)
    for got, alone in zip((root, inverse), newton_schulz(other, method), strict=True):
        assert got.isfinite().all()
        torch.testing.assert_close(got[1], alone)


@pytest.mark.parametrize("degree", [3, 5])
@pytest.mark.parametrize(
    "interval", [(1e-6, 1.0), (1e-3, 1.0), (0.1, 1.9), (0.9, 1.1), (0.998, 1.002)]
)
def test_the_error_alternates_between_its_extremes(interval, degree):
    """Chebyshev: the best polynomial is the one whose error reaches its bound with changing signs."""
    coefficients, bound = best_odd_polynomial(*interval, degree)
    x = torch.linspace(*interval, 200001, dtype=torch.float64)
    error = 1 - sum(c * x ** (2 * k + 1) for k, c in enumerate(coefficients))
    assert error.abs().max() <= bound * (1 + 1e-6) + 1e-15
    reached = error[error.abs() >= bound * (1 - 1e-4)].sign()
    changes = int((reached.diff() != 0).sum())
    assert changes == (degree + 1) // 2  # one point more than coefficients


@pytest.mark.parametrize("degree", [3, 5])
@pytest.mark.parametrize("lower", [1e-2, 1e-4])
def test_the_announced_error_is_that_of_the_composition(lower, degree):
    for steps in (1, 3, 6, 9):
        method = Minimax(steps, lower, degree)
        x = torch.logspace(torch.log10(torch.tensor(lower)).item(), 0, 5001, dtype=torch.float64)
        for coefficients in method.coefficients:
            x = sum(c * x ** (2 * k + 1) for k, c in enumerate(coefficients))
        assert (1 - x).abs().max() <= 1.001 * method.error + 1e-14


@pytest.mark.parametrize("dtype", matrices.DTYPES)
@pytest.mark.parametrize("degree", [3, 5])
def test_roots_and_their_gradients(dtype, degree):
    lam = torch.logspace(-4, 0, 6, dtype=torch.float64)
    A = matrices.with_spectrum(lam).to(dtype).requires_grad_()
    method = Minimax(steps=16 if degree == 3 else 11, lower=1e-3, degree=degree)
    root, inverse = newton_schulz(A, method)
    exact = sqrtm(A)
    # Coupled iterations lose the condition number of the matrix, in units of rounding.
    assert relative_error(root.detach(), exact.detach()) < allowed(dtype, 6, 1e2)
    assert relative_error((root @ inverse).detach(), torch.eye(6)) < allowed(dtype, 6, 1e4)
    G = matrices.random_symmetric(6, 6, dtype=dtype)
    (got,) = torch.autograd.grad(root, A, G)
    (expected,) = torch.autograd.grad(exact, A, G)
    assert relative_error(got, expected) < allowed(dtype, 6, 1e4)
