import pytest
import torch

import matrices
from matrices import relative_error
from rootpool.linalg import inv_sqrtm, newton_schulz, sqrtm
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


@pytest.mark.parametrize("iterations", [1, 2, 5])
def test_derivatives(iterations):
    A = matrices.matrix("separated")[:3, :3].clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda A: newton_schulz(A, iterations), A)
    assert torch.autograd.gradgradcheck(lambda A: newton_schulz(A, iterations).root, A)


@pytest.mark.parametrize("kind", ["rank-deficient", "zero", "huge", "tiny"])
def test_finite_with_finite_gradient(kind):
    A = matrices.matrix(kind).repeat(2, 1, 1).requires_grad_()
    root, inverse_root = newton_schulz(A, 5)
    (root.sum() + inverse_root.sum()).backward()
    assert root.isfinite().all()
    assert inverse_root.isfinite().all()
    assert A.grad.isfinite().all()
    if kind == "zero":
        assert (root == 0).all()


def test_zero_matrix_beside_others_changes_nothing():
    A = matrices.random_definite(2, 4, 4)
    alone = newton_schulz(A[1:]).root
    A[0] = 0
    assert_same_to_rounding(newton_schulz(A).root[1:], alone)


@pytest.mark.parametrize("shape", [(0, 3, 3), (1, 1), (2, 3, 4, 4)])
def test_shapes(shape):
    roots = newton_schulz(torch.ones(shape))
    assert roots.root.shape == roots.inverse_root.shape == shape


def test_exports():
    class Root(torch.nn.Module):
        def forward(self, A):
            return newton_schulz(A).root

    A = matrices.random_definite(2, 4, 4)
    program = torch.export.export(Root(), (A,))
    assert torch.allclose(program.module()(A), newton_schulz(A).root)


def test_autocast():
    A = matrices.random_definite(4, 4, dtype=torch.float32)
    outside = newton_schulz(A).root
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(newton_schulz(A).root, outside)
        got = newton_schulz(A.bfloat16()).root
    assert torch.equal(got, newton_schulz(A.bfloat16().float()).root)


def test_bad_input():
    with pytest.raises(ValueError, match=r"newton_schulz expects \(..., n, n\), got \(2, 3\)"):
        newton_schulz(torch.zeros(2, 3))
    with pytest.raises(ValueError, match="iterations must be an integer >= 1, got 0"):
        newton_schulz(torch.eye(2), 0)


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
    expected = newton_schulz(A).root * scale**0.5
    got = newton_schulz((A * scale).to(dtype)).root
    assert torch.allclose(got.double(), expected, rtol=1e-5, atol=0)
    B = (A * scale).to(dtype).requires_grad_()
    newton_schulz(B).root.sum().backward()
    assert B.grad.isfinite().all()


def test_empty_matrix():
    assert newton_schulz(torch.zeros(2, 0, 0)).root.shape == (2, 0, 0)
