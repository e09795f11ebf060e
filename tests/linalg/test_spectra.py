"""Eigenvalues and singular values alone."""

import pytest
import torch

import matrices
from rootpool.linalg import eigvalsh, svdvals
from tolerances import assert_same_to_rounding

SHAPES = [(4, 4), (2, 3, 5, 5), (0, 3, 3), (2, 0, 0), (1, 1)]


@pytest.mark.parametrize("dtype", matrices.DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_same_values_as_torch(shape, dtype, requires_grad):
    A = matrices.random_symmetric(*shape, dtype=dtype).requires_grad_(requires_grad)
    assert_same_to_rounding(eigvalsh(A).detach(), torch.linalg.eigvalsh(A).detach())
    B = A[..., :2, :]
    assert_same_to_rounding(svdvals(B).detach(), torch.linalg.svdvals(B).detach(), shape[-1])


@pytest.mark.parametrize("UPLO", ["L", "U"])
def test_one_triangle_is_read(UPLO):
    A = matrices.random(4, 4)
    expected = torch.linalg.eigvalsh(A, UPLO)
    assert_same_to_rounding(eigvalsh(A, UPLO), expected)
    assert_same_to_rounding(eigvalsh(A.requires_grad_(), UPLO).detach(), expected)


def test_nuclear_norm_has_the_least_subgradient_at_low_rank():
    A = (matrices.random(5, 2) @ matrices.random(2, 4, seed=1)).requires_grad_()
    svdvals(A).sum().backward()
    U, _, Vh = torch.linalg.svd(A.detach())
    assert torch.allclose(A.grad, U[:, :2] @ Vh[:2], atol=1e-13)


def test_forward_mode_without_gradient_mode():
    A, E = matrices.random_symmetric(3, 3), matrices.random_symmetric(3, 3, seed=1)
    with torch.no_grad():
        found = matrices.tangent(eigvalsh, A, E)
    U = torch.linalg.eigh(A).eigenvectors
    assert torch.allclose(found, (U.mT @ E @ U).diagonal())
