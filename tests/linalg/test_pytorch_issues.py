"""Situations that users reported to PyTorch as NaN or nonsense, by number: the gradient is right here.

What torch gives in them depends on its version and on the CPU, so no test says.
"""

import pytest
import torch

import matrices
from matrices import relative_error, symmetric
from rootpool.linalg import eigh, sqrtm, svd


def gradient(f, A):
    A = A.clone().requires_grad_()
    return torch.autograd.grad(f(A), A)[0]


def test_76531_eigh_backward_with_equal_eigenvalues():
    # The loss looks only at the eigenvector of the simple eigenvalue.
    A = torch.diag(torch.tensor([1.0, 1.0, 1.0, 2.0], dtype=torch.float64))
    v = torch.tensor([0.0, 0.0, 0.0, 1.0], dtype=torch.float64)
    weight = matrices.random(4, seed=1)
    got = gradient(lambda A: (eigh(A)[1][:, -1] @ weight).square(), A)
    # d(u u^T)[E] = P E u u^T + u u^T E P with the resolvent P = (I - v v^T) / (2 - 1)
    P = torch.eye(4).double() - torch.outer(v, v)
    expected = symmetric(2 * P @ torch.outer(weight, weight) @ torch.outer(v, v))
    assert relative_error(got, expected) < 1e-12


@pytest.mark.parametrize("scale", [0, 1])
def test_49886_svd_backward_with_repeated_zeros(scale):
    A = matrices.random(6, 2) @ matrices.random(2, 5, seed=1) * scale
    A[:, 3:] = 0  # exact zeros, as from dead channels

    def square_of_reconstruction(A):
        U, S, Vh = svd(A)
        return ((U * S) @ Vh).square().sum()

    assert (gradient(square_of_reconstruction, A) - 2 * A).norm() <= 1e-12 * A.norm()


def test_47599_degenerate_eigenvectors_with_a_finite_expected_gradient():
    Q = matrices.orthogonal(5)
    A = symmetric(Q @ torch.diag(torch.tensor([0.5, 1, 1, 2, 2], dtype=torch.float64)) @ Q.mT)
    weight = matrices.random_symmetric(5, 5, seed=1)

    def loss(A):  # of the projector on the eigenspace of 1, whatever its basis
        U = eigh(A, rule="degenerate")[1][:, 1:3]
        return (U @ U.mT * weight).sum()

    # The projector as a contour integral, which needs no eigenvectors.
    def projector(A):
        angle = torch.arange(64).double() * 2 * torch.pi / 64
        z = 1 + 0.3 * torch.exp(1j * angle)
        resolvent = torch.linalg.inv(z[:, None, None] * torch.eye(5) - A.to(z.dtype))
        return ((z - 1)[:, None, None] * resolvent).mean(0).real

    expected = symmetric(gradient(lambda A: (projector(A) * weight).sum(), A))
    assert relative_error(gradient(loss, A), expected) < 1e-10


@pytest.mark.parametrize("scale", [1e-25, 1e25])
def test_194705_nan_from_scale_alone(scale):
    A = matrices.random(4, 4, dtype=torch.float32)

    def polar_factor(A):
        U, _, Vh = svd(A)
        return (U @ Vh)[0, 1]

    # The polar factor does not depend on the scale; squares of it leave the range of float32.
    expected = gradient(polar_factor, A.double())
    got = gradient(polar_factor, A * scale)
    assert relative_error(got * scale, expected) < 1e-5


@pytest.mark.parametrize("dtype", matrices.DTYPES)
def test_25481_square_root_at_ties(dtype):
    A, G = 4 * torch.eye(3, dtype=dtype), matrices.random_symmetric(3, 3, dtype=dtype)
    assert torch.allclose(gradient(lambda A: (sqrtm(A) * G).sum(), A), G / 4)
