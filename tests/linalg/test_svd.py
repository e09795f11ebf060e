import pytest
import torch

import matrices
from rootpool.linalg import RULES, eigh, svd

SHAPES = [(4, 4), (5, 3), (3, 5), (2, 4, 3), (2, 0, 3, 4), (3, 1), (1, 1), (0, 3)]


@pytest.mark.parametrize("dtype", matrices.DTYPES)
@pytest.mark.parametrize("full_matrices", [False, True])
def test_same_values_and_shapes_as_torch(dtype, full_matrices):
    for shape in SHAPES:
        A = matrices.random(*shape, dtype=dtype)
        expected = torch.linalg.svd(A, full_matrices)
        assert all(map(torch.equal, svd(A, full_matrices), expected))


@pytest.mark.parametrize("shape", [(2, 4, 4), (5, 3), (3, 5), (4, 1)])
def test_first_and_second_derivative(shape):
    A = matrices.random(*shape).requires_grad_()

    def invariant(A):
        U, S, Vh = svd(A)
        return U.abs(), S, Vh.abs(), (U * S.unsqueeze(-2)) @ Vh

    assert torch.autograd.gradcheck(invariant, A)
    assert torch.autograd.gradgradcheck(invariant, A)


def test_full_matrices_has_the_gradient_of_the_thin_part():
    A = matrices.random(4, 2).requires_grad_()
    U, S, Vh = svd(A, full_matrices=True)
    (got,) = torch.autograd.grad((U[:, :2].square() @ S).sum() + Vh[0, 0].abs(), A)
    U, S, Vh = svd(A)
    (expected,) = torch.autograd.grad((U.square() @ S).sum() + Vh[0, 0].abs(), A)
    assert torch.allclose(got, expected)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("kind", "columns"), [("separated", 4), ("repeated", 6), ("rank-deficient", 5), ("graded", 6)]
)
def test_backward_is_the_transpose_of_forward_mode(rule, kind, columns):
    tall = matrices.matrix(kind)[:, :columns].clone()
    f = lambda A: torch.cat([t.flatten() for t in svd(A, rule=rule)])  # noqa: E731
    for A in (tall, tall.mT.clone()):
        forward, backward = torch.func.jacfwd(f)(A), torch.func.jacrev(f)(A)
        assert matrices.relative_error(backward, forward) < 1e-10
        if kind == "rank-deficient" and rule == "degenerate":  # where nothing turns null vectors
            assert backward.abs().max() < 1e3


@pytest.mark.parametrize("rule", RULES)
def test_rule_acts_on_singular_values_as_on_eigenvalues_of_a_covariance(rule):
    A = matrices.matrix("separated")
    (by_svd,) = torch.func.vjp(lambda A: svd(A, rule=rule)[0].abs(), A)[1](
        torch.ones(6, 6).double()
    )
    (by_eigh,) = torch.func.vjp(lambda A: eigh(A, rule=rule)[1].abs(), A)[1](
        torch.ones(6, 6).double()
    )
    # eigh differentiates along symmetric directions only, and moves U and V together.
    assert torch.allclose((by_svd + by_svd.mT) / 2, by_eigh, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(("n", "scale"), [(5, 1), (5, 0), (1, 0)])
def test_reconstruction_with_repeated_zeros(n, scale):
    """Issue 49886 of PyTorch, NaN there."""
    A = matrices.random(6, 2) @ matrices.random(2, n, seed=1) * scale
    A[:, 3:] = 0  # exact zeros, as from dead channels
    U, S, Vh = svd(A.requires_grad_())
    (got,) = torch.autograd.grad(((U * S) @ Vh).square().sum(), A)
    assert (got - 2 * A).norm() <= 1e-12 * A.norm()


@pytest.mark.parametrize("scale", [1e-25, 1e25])
def test_gradient_of_the_polar_factor_at_every_scale(scale):
    """Issue 194705: squares of singular values leave the range of float32."""
    A = matrices.random(4, 4, dtype=torch.float32)

    def gradient(A):
        U, _, Vh = svd(A.requires_grad_())
        return torch.autograd.grad((U @ Vh)[0, 1], A)[0]

    assert matrices.relative_error(gradient(A * scale) * scale, gradient(A.double())) < 1e-5


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 5)])
def test_reconstruction_of_a_rank_deficient_matrix_has_the_gradient_of_the_identity(shape):
    # U S V^T = A whatever the ranks, so the gradient of a function of it is that of A, within the
    # directions that keep the rank; along those the null space of both sides is not moved.
    left, right = matrices.random(shape[0], 2), matrices.random(2, shape[1], seed=1)
    weight = matrices.random(*shape, seed=2)

    def tangent(left, right):
        U, S, Vh = svd(left @ right)
        return (((U * S) @ Vh) * weight).sum()

    got = torch.func.grad(tangent, (0, 1))(left, right)
    expected = torch.func.grad(lambda x, y: ((x @ y) * weight).sum(), (0, 1))(left, right)
    for g, e in zip(got, expected, strict=True):
        assert matrices.relative_error(g, e) < 1e-12
