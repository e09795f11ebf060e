import pytest
import torch

import matrices
from matrices import relative_error
from rootpool.linalg import Minimax, inv_sqrtm, newton_schulz, sqrtm
from tolerances import assert_same_to_rounding


def test_is_the_iteration_of_the_paper():
    P = matrices.random_definite(3, 5, 5)
    for k, matrix in enumerate(P):
        A, eye = matrix / matrix.trace(), torch.eye(5).double()
        Y, Z = A, eye
        for _ in range(5):
            Y, Z = Y @ (3 * eye - Z @ Y) / 2, (3 * eye - Z @ Y) @ Z / 2
        root, inverse_root = newton_schulz(P, iterations=5)
        assert torch.allclose(root[k], matrix.trace().sqrt() * Y, rtol=1e-13)
        assert torch.allclose(inverse_root[k], Z / matrix.trace().sqrt(), rtol=1e-13)


@pytest.mark.parametrize("dtype", matrices.DTYPES)
def test_converges_to_the_roots(dtype):
    A = matrices.random_definite(2, 6, 6, dtype=dtype)
    root, inverse_root = newton_schulz(A, iterations=20)
    assert relative_error(root, sqrtm(A)) < 10 * matrices.TOLERANCE[dtype]
    assert relative_error(inverse_root, inv_sqrtm(A)) < 10 * matrices.TOLERANCE[dtype]


def test_gradient_converges_to_the_exact_one_at_ties():
    G = matrices.random_symmetric(6, 6)
    A = matrices.matrix("repeated").requires_grad_()
    (by_iteration,) = torch.autograd.grad(newton_schulz(A, 20).root, A, G)
    (exact,) = torch.autograd.grad(sqrtm(A), A, G)
    assert relative_error(by_iteration, exact) < 1e-12


@pytest.mark.parametrize("iterations", [1, 2])
def test_derivatives(iterations):
    A = matrices.matrix("separated")[:3, :3].clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda A: newton_schulz(A, iterations), A)
    assert torch.autograd.gradgradcheck(lambda A: newton_schulz(A, iterations).root, A)


def test_zero_matrix_beside_others_changes_nothing():
    A = matrices.random_definite(2, 4, 4)
    alone = newton_schulz(A[1:]).root
    A[0] = 0
    assert_same_to_rounding(newton_schulz(A).root[1:], alone)


def test_bad_input():
    with pytest.raises(ValueError, match=r"newton_schulz expects \(..., n, n\), got \(2, 3\)"):
        newton_schulz(torch.zeros(2, 3))
    with pytest.raises(ValueError, match="iterations must be an integer >= 1, got 0"):
        newton_schulz(torch.eye(2), 0)


@pytest.mark.parametrize("method", [5, Minimax()])
@pytest.mark.parametrize("shape", [(2, 3, 3), (0, 3, 3), (2, 0, 0)])
def test_zero_and_empty_matrices(shape, method):
    root, inverse = newton_schulz(torch.zeros(shape), method)
    assert torch.equal(root, torch.zeros(shape))
    assert inverse.shape == shape
    assert inverse.isfinite().all()


@pytest.mark.parametrize(
    ("scale", "dtype"),
    [
        (2.0**1020, torch.float64),
        (2.0**-1040, torch.float64),
        (2.0**126, torch.float32),
        (2.0**-140, torch.float32),
    ],
)
def test_ends_of_the_range(scale, dtype):
    """The trace would overflow, or vanish."""
    A = torch.diag(torch.tensor([1.0, 0.5, 0.75, 1.0])).double()
    got = newton_schulz((A * scale).to(dtype)).root.double() / scale**0.5
    assert torch.allclose(got, newton_schulz(A).root, rtol=1e-5, atol=0)
    gradients = []
    for factor in (1.0, scale):
        B = (A * factor).to(dtype).requires_grad_()
        newton_schulz(B).root.sum().backward()
        gradients.append(B.grad.double() * factor**0.5)
    assert relative_error(gradients[1], gradients[0]) < 1e-5
