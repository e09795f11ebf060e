"""Leading subspaces: exact at ties inside, refused where the cut falls into a tie."""

import pytest
import torch

import matrices
from matrices import relative_error, symmetric, with_eigenvalues
from rootpool.linalg import leading_projector, principal_subspace
from tolerances import allowed


@pytest.mark.parametrize("lam", [[1.0, 1.0, 1.0, 3.0, 3.0], [-2.0, -2.0, 0.0, 0.0, 5.0]])
@pytest.mark.parametrize("k", [2, 5])
def test_every_derivative_of_the_projector_at_ties(lam, k):
    if lam[-k] == lam[-k - 1 :][0] and k < 5:
        k = 1
    A = with_eigenvalues(lam).requires_grad_()
    assert torch.autograd.gradcheck(lambda A: leading_projector(symmetric(A), k), A)
    assert torch.autograd.gradgradcheck(lambda A: leading_projector(symmetric(A), k), A)


@pytest.mark.parametrize("dtype", matrices.DTYPES)
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
@pytest.mark.parametrize("shape", [(7, 4), (4, 7)])
def test_both_ways_give_the_same_subspace_and_gradient(dtype, scale, shape):
    X = (scale * matrices.random(2, *shape, dtype=dtype)).requires_grad_()
    weight = matrices.random(shape[1], shape[1], dtype=dtype, seed=1)
    V = principal_subspace(X, 2)
    assert V.shape == (2, shape[1], 2)
    (thin,) = torch.autograd.grad(((V @ V.mT) * weight).sum(), X)
    Y = (X.detach() / scale).requires_grad_()  # squares of X would leave the range of float32
    centred = Y - Y.mean(-2, keepdim=True)
    P = leading_projector(centred.mT @ centred, 2)
    (full,) = torch.autograd.grad((P * weight).sum(), Y)
    assert relative_error((V @ V.mT).detach(), P.detach()) < 10 * allowed(dtype, 7)
    assert relative_error(thin * scale, full) < 10 * allowed(dtype, 7)


def test_small_components_keep_their_digits():
    """The second direction is 1e-9 of the first: its square is below the rounding of a covariance."""
    X = torch.diag(torch.tensor([1.0, 1e-9, 1e-12])).double()
    X = torch.cat([X, -X]) @ matrices.orthogonal(3).mT
    V = principal_subspace(X, 2)
    assert torch.allclose(
        (V.mT @ matrices.orthogonal(3))[:, :2].abs(), torch.eye(2).double(), atol=1e-6
    )


def test_a_loss_of_the_basis_is_reported():
    X = matrices.random(6, 4).requires_grad_()
    with pytest.warns(UserWarning, match="depends on the basis inside the principal subspace"):
        principal_subspace(X, 2)[0, 0].backward()
