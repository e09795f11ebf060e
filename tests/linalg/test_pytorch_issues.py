"""Situations that users reported to PyTorch: NaN or nonsense there, right here.

Each test shows first that torch still fails (so that we notice when it no longer does).
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

    def loss(A, eigh):
        return (eigh(A)[1][:, -1] @ weight).square()

    assert gradient(lambda A: loss(A, torch.linalg.eigh), A).isnan().any()
    got = gradient(lambda A: loss(A, eigh), A)
    # d(u u^T)[E] = P E u u^T + u u^T E P with the resolvent P = (I - v v^T) / (2 - 1)
    P = torch.eye(4).double() - torch.outer(v, v)
    W = torch.outer(weight, weight)
    expected = symmetric(2 * P @ W @ torch.outer(v, v))
    assert relative_error(got, expected) < 1e-12


def test_49886_svd_backward_with_repeated_zeros():
    A = matrices.random(6, 2) @ matrices.random(2, 5, seed=1)

    def square_of_reconstruction(A, svd):
        U, S, Vh = svd(A, full_matrices=False)
        return ((U * S) @ Vh).square().sum()

    A = A.clone()
    A[:, 3:] = 0  # exact zeros, as from dead channels
    assert gradient(lambda A: square_of_reconstruction(A, torch.linalg.svd), A * 0).isnan().any()
    got = gradient(lambda A: square_of_reconstruction(A, svd), A * 0)
    assert (got == 0).all()
    got = gradient(lambda A: square_of_reconstruction(A, svd), A)
    assert relative_error(got, 2 * A) < 1e-12


def test_47599_degenerate_eigenvectors_with_a_finite_expected_gradient():
    Q = matrices.orthogonal(5)
    A = symmetric(Q @ torch.diag(torch.tensor([0.5, 1, 1, 2, 2], dtype=torch.float64)) @ Q.mT)
    weight = matrices.random_symmetric(5, 5, seed=1)

    def loss(A, eigh):  # of the projector on the eigenspace of 1, whatever its basis
        U = eigh(A)[1][:, 1:3]
        return (U @ U.mT * weight).sum()

    # The projector as a contour integral, which needs no eigenvectors.
    def projector(A):
        angle = torch.arange(64).double() * 2 * torch.pi / 64
        z = 1 + 0.3 * torch.exp(1j * angle)
        resolvent = torch.linalg.inv(z[:, None, None] * torch.eye(5) - A.to(z.dtype))
        return ((z - 1)[:, None, None] * resolvent).mean(0).real

    expected = symmetric(gradient(lambda A: (projector(A) * weight).sum(), A))
    native = gradient(lambda A: loss(A, torch.linalg.eigh), A)
    assert not relative_error(symmetric(native), expected) < 1e-3
    got = gradient(lambda A: loss(A, lambda A: eigh(A, "degenerate")), A)
    assert relative_error(got, expected) < 1e-10


@pytest.mark.parametrize("scale", [1e-25, 1e25])
def test_194705_nan_from_scale_alone(scale):
    A = matrices.random(4, 4, dtype=torch.float32) * scale  # squares leave the range of float32

    def polar_factor(A, svd):
        U, _, Vh = svd(A, full_matrices=False)
        return (U @ Vh)[0, 1]

    native = gradient(lambda A: polar_factor(A, torch.linalg.svd), A)
    reference = gradient(lambda A: polar_factor(A, torch.linalg.svd), (A / scale).double())
    assert not relative_error(native * scale, reference) < 1e-3
    got = gradient(lambda A: polar_factor(A, svd), A)
    assert relative_error(got * scale, reference) < 1e-5


@pytest.mark.parametrize("dtype", matrices.DTYPES)
def test_25481_square_root_at_ties(dtype):
    def native_root(A):
        lam, U = torch.linalg.eigh(A)
        return (U * lam.sqrt()) @ U.mT

    A, G = 4 * torch.eye(3, dtype=dtype), matrices.random_symmetric(3, 3, dtype=dtype)
    assert gradient(lambda A: (native_root(A) * G).sum(), A).isnan().any()
    got = gradient(lambda A: (sqrtm(A) * G).sum(), A)
    assert torch.allclose(got, G / 4)
