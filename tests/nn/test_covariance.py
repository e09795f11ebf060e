import pytest
import torch

import matrices
from rootpool.nn import covariance


@pytest.mark.parametrize("shape", [(2, 4, 9), (2, 4, 3, 3), (1, 3, 1), (0, 3, 5), (2, 1, 4)])
def test_by_loops(shape):
    X = matrices.random(*shape)
    P = covariance(X)
    flat = X.flatten(2)
    B, C, N = flat.shape
    assert P.shape == (B, C, C)
    for b in range(B):
        mean = [sum(flat[b, i].tolist()) / N for i in range(C)]
        for i in range(C):
            for j in range(C):
                pairs = zip(flat[b, i].tolist(), flat[b, j].tolist(), strict=True)
                expected = sum((x - mean[i]) * (y - mean[j]) for x, y in pairs) / N
                assert P[b, i, j] == pytest.approx(expected, abs=1e-14)


def test_gradient_dtype_and_layout():
    X = matrices.random(2, 3, 4).requires_grad_()
    assert torch.autograd.gradcheck(covariance, X)
    assert torch.autograd.gradgradcheck(covariance, X)
    assert covariance(X.float()).dtype == torch.float32
    Y = matrices.random(4, 3, 2).permute(2, 1, 0)
    assert torch.allclose(covariance(Y), covariance(Y.contiguous()))


def test_a_constant_map_has_no_covariance():
    X = torch.full((2, 3, 7), 0.1) * torch.tensor([1.0, 3e38])[:, None, None]
    assert (covariance(X) == 0).all()


def test_broken_features_pass_through():
    assert covariance(torch.full((1, 2, 3), torch.nan)).isnan().all()
