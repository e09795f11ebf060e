import pytest
import torch

import matrices
from rootpool.linalg import from_triangle, to_triangle, triangle_size, triangle_weights


@pytest.mark.parametrize("n", [0, 1, 2, 5])
@pytest.mark.parametrize("lead", [(), (3,), (2, 0)])
def test_round_trip_and_order(n, lead):
    A = matrices.random_symmetric(*lead, n, n)
    vector = to_triangle(A)
    assert vector.shape == (*lead, triangle_size(n))
    assert torch.equal(from_triangle(vector), A)
    if not lead:
        assert vector.tolist() == [A[i, j].item() for i in range(n) for j in range(i, n)]


def test_derivatives_and_vmap():
    A = matrices.random(2, 3, 3).requires_grad_()
    assert torch.autograd.gradcheck(to_triangle, A)
    vector = matrices.random(2, 6).requires_grad_()
    assert torch.autograd.gradcheck(from_triangle, vector)
    assert torch.equal(torch.vmap(to_triangle)(A), to_triangle(A))
    assert torch.equal(torch.vmap(from_triangle)(vector), from_triangle(vector))


@pytest.mark.parametrize("n", [0, 1, 5])
@pytest.mark.parametrize("dtype", matrices.DTYPES)
def test_weighted_triangles_have_the_frobenius_inner_product(n, dtype):
    A, B = matrices.random_symmetric(2, n, n, dtype=dtype)
    w = triangle_weights(n, dtype=dtype)
    assert w.dtype == dtype
    expected = (A * B).sum()
    assert torch.allclose((w * to_triangle(A)) @ (w * to_triangle(B)), expected, rtol=1e-5)
