import math

import pytest
import torch

import matrices
from rootpool.nn import Length, make_pool


@pytest.mark.parametrize("power", [1.0, 0.5, 2.0])
@pytest.mark.parametrize("dtype", matrices.DTYPES)
def test_length_and_direction(power, dtype):
    v = matrices.random(5, 7, dtype=dtype)
    out = Length(3.0, power)(v)
    assert torch.allclose(out.norm(dim=1), torch.full((5,), 3.0, dtype=dtype))
    for row, scaled in zip(v.tolist(), out.tolist(), strict=True):
        u = [math.copysign(abs(x) ** power, x) for x in row]
        size = math.sqrt(sum(x * x for x in u))
        assert scaled == pytest.approx([3 * x / size for x in u], rel=1e-5)


@pytest.mark.parametrize("scaling", [Length(2.0), Length(2.0, power=0.5)])
def test_gradients(scaling):
    v = matrices.random(3, 4).requires_grad_()
    assert torch.autograd.gradcheck(scaling, v)
    assert torch.equal(torch.vmap(scaling)(v), scaling(v))


@pytest.mark.parametrize("power", [1.0, 0.5])
def test_zeros_stay_zeros_with_a_finite_gradient(power):
    v = torch.tensor([[0.0, 0.0], [0.0, 4.0]], requires_grad=True)
    out = Length(5.0, power)(v)
    assert out.tolist() == [[0.0, 0.0], [0.0, 5.0]]
    out.sum().backward()
    assert v.grad.isfinite().all()


def test_half_precision_does_not_overflow():
    v = torch.full((1, 4), 6e4, dtype=torch.float16)  # the square of one entry is out of range
    assert Length(2.0)(v).tolist() == [[1.0, 1.0, 1.0, 1.0]]
    assert Length(2.0)(v).dtype == torch.float16


@pytest.mark.parametrize("method", ["exact", "isqrt-cov", "gap"])
@pytest.mark.parametrize("output", ["triangle", "isometric", "matrix"])
def test_pooling_is_scaled_as_one_vector_per_sample(method, output):
    X = matrices.random(3, 5, 4, 4, dtype=torch.float32)
    plain = make_pool(5, method, output=output)
    scaled = make_pool(5, method, output=output, scaling=Length(4.0))
    expected = torch.stack([4 * sample / sample.norm() for sample in plain(X)])
    assert scaled.out_features == plain.out_features
    assert torch.allclose(scaled(X), expected, rtol=1e-5)


@pytest.mark.parametrize("exponent", [-1000, -100, 100, 1000])
def test_length_of_tiny_and_huge_vectors(exponent):
    """Squares of these are beyond the range."""
    scale = 2.0**exponent
    v = (torch.tensor([[3.0, -4.0]], dtype=torch.float64) * scale).requires_grad_()
    scaled = Length(10.0)(v)
    assert torch.allclose(scaled, torch.tensor([[6.0, -8.0]]).double(), rtol=1e-14)
    scaled[0, 0].backward()
    assert torch.allclose(v.grad * scale, torch.tensor([[1.28, 0.96]]).double())
