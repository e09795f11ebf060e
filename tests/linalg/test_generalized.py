"""Pairs of matrices: generalised eigenproblems and the affine-invariant distance, against many digits."""

import mpmath
import pytest
import torch

import oracles
from matrices import inner, random, symmetric, with_eigenvalues
from rootpool.linalg import affine_invariant_distance, eigh
from tolerances import allowed

FIELDS = [torch.float64, torch.complex128]
# Generalised eigenvalues of a pair.
SPECTRA = {
    "separated": [0.5, 1.0, 2.5, 4.0],
    "repeated": [0.5, 0.5, 2.0, 2.0],
    "close": [0.5, 0.5 + 1e-9, 2.0, 2.0 + 1e-12],
    "close, not asked for": [0.5, 0.5 + 1e-9, 2.0, 3.0],
    "equal matrices": [1.0, 1.0, 1.0, 1.0],
    "nearly equal matrices": [1.0, 1.0 + 1e-9, 1.0 + 2e-9, 1.0 - 1e-9],
    "far": [1e-4, 1.0, 1.0, 1e4],
}


def pair(kind, dtype):
    M = random(4, 4, dtype=dtype) + 2 * torch.eye(4)
    C = with_eigenvalues(SPECTRA[kind], dtype=dtype)
    B = symmetric(M @ M.mH)
    return (B.clone() if kind == "equal matrices" else symmetric(M @ C @ M.mH)), B


def along(gradients, dtype):
    """Directions, the derivative along them, and the size that its error is relative to."""
    directions = [symmetric(random(4, 4, dtype=dtype, seed=k)) for k in (6, 7)]
    pairs = list(zip(gradients, directions, strict=True))
    size = sum(float(g.norm() * V.norm()) for g, V in pairs)
    return directions, float(sum(inner(g, V) for g, V in pairs)), size


@pytest.mark.parametrize("dtype", FIELDS)
@pytest.mark.parametrize("kind", ["separated", "repeated", "close, not asked for"])
def test_gradient_of_a_weighted_projector(kind, dtype):
    """``sum x x^H`` over an eigenspace, of A and of B."""
    A, B = pair(kind, dtype)
    W = symmetric(random(4, 4, dtype=dtype, seed=5))

    def digits(A, B):
        root = oracles.power(B, -0.5)
        return oracles.weighted(W, root * oracles.projector(root * A * root, 2) * root)

    leaves = [A.clone().requires_grad_(), B.clone().requires_grad_()]
    lam, U = eigh(leaves[0], B=leaves[1])
    assert torch.allclose(eigh(A, "U", B=B).eigenvalues, lam)
    assert torch.allclose(A @ U, B @ U * lam)
    U = U[:, 2:]
    directions, got, size = along(torch.autograd.grad(inner(W, U @ U.mH), leaves), dtype)
    limit = allowed(torch.float64, 4, float(torch.linalg.cond(B)))
    assert abs(got - oracles.slope(digits, [A, B], directions)) < limit * size


@pytest.mark.parametrize("dtype", FIELDS)
@pytest.mark.parametrize("kind", SPECTRA)
def test_distance_and_its_derivatives(kind, dtype):
    A, B = pair(kind, dtype)

    def digits(A, B):
        root = oracles.power(B, -0.5)
        return mpmath.fsum(
            mpmath.log(x) ** 2 for x in mpmath.eigh(root * A * root, eigvals_only=True)
        )

    exact = oracles.value(digits, A, B)
    leaves = [A.clone().requires_grad_(), B.clone().requires_grad_()]
    distance = affine_invariant_distance(*leaves)
    gradients = torch.autograd.grad(distance, leaves, create_graph=True)
    condition = float(torch.linalg.cond(B) + torch.linalg.cond(A))
    limit = allowed(torch.float64, 4, condition)
    # Relative to itself, however close the matrices are; nothing is left of equal ones.
    assert abs(float(distance.detach()) - exact) <= limit * exact + 1e-100
    assert torch.allclose(distance, affine_invariant_distance(B, A), rtol=limit, atol=0)
    directions, got, size = along([g.detach() for g in gradients], dtype)
    slope = oracles.slope(digits, [A, B], directions)
    assert abs(got - slope) <= limit * size + 1e-15
    if kind == "equal matrices":
        assert all(bool((g == 0).all()) for g in gradients)
    V = directions[0]
    curvature = oracles.curvature(lambda A: digits(A, oracles.digits(B)), A, V, V)
    (second,) = torch.autograd.grad(inner(gradients[0], V), leaves[0])
    assert abs(float(inner(second, V)) - curvature) <= limit * float(second.norm() * V.norm())


def test_distance_does_not_see_the_basis_and_takes_batches():
    A, B = pair("separated", torch.float64)
    M = random(4, 4, seed=9)
    moved = affine_invariant_distance(*(symmetric(M @ P @ M.mT) for P in (A, B)))
    assert torch.isclose(moved, affine_invariant_distance(A, B), rtol=1e-10)
    many = affine_invariant_distance(A.expand(3, 2, 4, 4), B.expand(2, 4, 4))
    assert torch.allclose(many, affine_invariant_distance(A, B).expand(3, 2))
    assert affine_invariant_distance(A.expand(0, 4, 4), B).shape == (0,)
    assert eigh(A.expand(0, 4, 4), B=B).eigenvectors.shape == (0, 4, 4)
    assert torch.isclose(affine_invariant_distance(A[:1, :1], B[:1, :1]), (A / B)[0, 0].log() ** 2)
