"""Polar factors and rotations: any shape, rank and scale, and where the problem itself is singular."""

import pytest
import torch

import matrices
from matrices import relative_error, with_singular_values
from oracles import central_difference
from rootpool.linalg import orthogonalize, polar, rotation
from tolerances import allowed

SHAPES = [(4, 4), (5, 3), (3, 5), (2, 4, 3), (2, 0, 3, 4), (3, 1), (1, 1), (0, 3), (2, 3, 0)]


@pytest.mark.parametrize("dtype", matrices.DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_defining_equations(shape, dtype):
    A = matrices.random(*shape, dtype=dtype)
    Q, H = polar(A)
    tolerance = allowed(dtype, max(shape[-2:]))
    identity = Q.mT @ Q if shape[-2] >= shape[-1] else Q @ Q.mT
    assert torch.allclose(Q @ H, A, atol=tolerance * 5)
    assert torch.allclose(identity, torch.eye(identity.shape[-1], dtype=dtype), atol=tolerance)
    assert torch.equal(H, H.mT)
    assert H.numel() == 0 or torch.linalg.eigvalsh(H).min() > -tolerance * 5
    assert torch.equal(orthogonalize(A), Q)


@pytest.mark.parametrize("shape", [(5, 4), (4, 4), (3, 4)])
def test_rank_deficient_factor_is_the_canonical_one_and_its_derivative_keeps_the_rank(shape):
    left, right = matrices.random(shape[0], 2), matrices.random(2, shape[1], seed=1)
    A = left @ right
    Q, H = polar(A)
    U, _, Vh = torch.linalg.svd(A)
    assert torch.allclose(Q, U[:, :2] @ Vh[:2], atol=1e-13)
    assert torch.allclose(Q @ H, A, atol=1e-13)

    def factor(left):
        return orthogonalize(left @ right)

    direction, G = matrices.random(*left.shape, seed=2), matrices.random(*shape, seed=3)
    expected = (central_difference(factor, left, direction) * G).sum()
    gradient = torch.func.grad(lambda left: (factor(left) * G).sum())(left)
    assert torch.isclose((gradient * direction).sum(), expected, rtol=1e-7)
    assert torch.isclose(
        (torch.func.jvp(factor, (left,), (direction,))[1] * G).sum(), expected, rtol=1e-7
    )


def test_broken_derivatives_inside_a_batch_touch_nothing_else():
    good = with_singular_values(3, 3, [2.0, 2.0, 1.0])
    batch = torch.stack([good, torch.zeros(3, 3).double()])
    G = matrices.random(3, 3)
    both = torch.vmap(torch.func.grad(lambda A: (rotation(A) * G).sum()))(batch)
    alone = torch.func.grad(lambda A: (rotation(A) * G).sum())(good)
    assert relative_error(both[0], alone) < 1e-13
