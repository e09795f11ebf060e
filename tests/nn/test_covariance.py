"""Covariances; with weights and masks, against repeated and dropped positions and against differences."""

import pytest
import torch

import matrices
from matrices import gradients, random
from oracles import central_difference
from rootpool.nn import (
    METHODS,
    AveragePool,
    CovariancePool,
    GroupWhitening,
    Whitening,
    covariance,
    covariance_pool,
)
from tolerances import allowed

SHAPES = {"more positions": (2, 3, 6), "fewer positions": (2, 6, 4)}
COUNTS = {6: [[1, 3, 2, 1, 0, 0], [2, 1, 1, 1, 1, 2]], 4: [[1, 2, 0, 0], [1, 2, 1, 1]]}
COUNTS[12] = [2 * k for k in COUNTS[6]]


def counts(N):
    return torch.tensor(COUNTS[N], device=matrices.DEVICE)


def repeated(X, k):
    """Every position as often as its weight says."""
    return X[k].repeat_interleave(counts(X.shape[-1])[k], -1)[None]


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("centred", [True, False])
def test_covariance_of_repeated_positions(shape, centred):
    X = random(*shape)
    P = covariance(X, centred=centred, weights=counts(shape[-1]))
    for k in (0, 1):
        expected = covariance(repeated(X, k), centred=centred)[0]
        assert torch.allclose(P[k], expected, atol=allowed(X.dtype, 6))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
@pytest.mark.parametrize("name", METHODS)
def test_pooling_of_repeated_positions(name, dtype):
    """The whole way of every method: it need not know that there are weights."""
    X = torch.cat([random(2, 3, 6), random(2, 3, 6, seed=3)], -1).to(dtype)
    got = covariance_pool(X, name, weights=counts(12))
    assert got.dtype == dtype
    # Released code centres by a matrix in float32, whatever the features are.
    rounded = torch.float32 if name.endswith("released") and dtype == torch.float64 else dtype
    tolerance = 1e-9 if rounded == torch.float64 else 20 * torch.finfo(rounded).eps
    for i in (0, 1):
        expected = covariance_pool(repeated(X, i), name)[0]
        assert torch.allclose(got[i], expected, rtol=tolerance, atol=tolerance * 10)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("name", ["exact", "isqrt-cov", "brownian"])
def test_padding_does_not_matter(name, shape):
    """Masked positions may hold anything, and get no gradient."""
    X, mask = random(*shape), counts(shape[-1]) > 0
    broken = X.masked_fill(~mask[:, None], torch.nan).requires_grad_()
    pooled = covariance_pool(broken, name, weights=mask)
    (g,) = torch.autograd.grad(pooled.sin().sum(), broken)
    for k in (0, 1):
        alone = X[k][:, mask[k]][None].requires_grad_()
        expected = covariance_pool(alone, name)
        assert torch.allclose(pooled[k], expected[0], atol=1e-12)
        (g_alone,) = torch.autograd.grad(expected.sin().sum(), alone)
        assert torch.allclose(g[k][:, mask[k]], g_alone[0], atol=1e-10)
        assert bool((g[k][:, ~mask[k]] == 0).all())


WEIGHTS = {
    "positive": [[0.1, 0.3, 0.2, 0.2, 0.1, 0.1], [1.0, 2.0, 1.0, 1.0, 1.0, 2.0]],
    "equal": [[1.0] * 6] * 2,
    "some zero": [[0.1, 0.3, 0.2, 0.2, 0.2, 0.0], [1.0, 2.0, 1.0, 1.0, 0.0, 2.0]],
}


@pytest.mark.parametrize("name", ["exact", "isqrt-cov", "brownian", "seb"])
@pytest.mark.parametrize("kind", WEIGHTS)
def test_gradient_of_features_and_weights(kind, name):
    X, w = random(2, 3, 6), torch.tensor(WEIGHTS[kind], dtype=torch.float64)
    G = random(2, 6, seed=4)

    def loss(X, w):
        return (covariance_pool(X, name, weights=w) * G).sum()

    V, dw = random(2, 3, 6, seed=2), random(2, 6, seed=3).abs()
    g_X, g_w = gradients(loss, X, w)
    expected = central_difference(lambda X: loss(X, w), X, V)
    assert torch.isclose((g_X * V).sum(), expected, rtol=1e-7)
    # To one side: weights are not negative.
    one, two = (loss(X, w + h * dw) - loss(X, w) for h in (1e-5, 5e-6))
    assert torch.isclose((g_w * dw).sum(), (4 * two - one) / 1e-5, rtol=1e-5, atol=1e-7)


def test_second_derivatives_and_rank_deficiency():
    X, w = random(2, 6, 4).requires_grad_(), random(2, 4, seed=1).square().requires_grad_()
    f = lambda X, w: covariance_pool(X, weights=w)  # noqa: E731
    assert torch.autograd.gradcheck(f, (X, w))
    assert torch.autograd.gradgradcheck(f, (X, w))


@pytest.mark.parametrize("shape", [(2, 4, 3, 5), (2, 4, 15)])
def test_modules_take_weights_of_positions(shape):
    X, w = random(*shape, dtype=torch.float32), random(2, 15, seed=1).abs()
    for pool in (CovariancePool(4), CovariancePool(4, "svd-pade"), AveragePool(4)):
        one = pool(X, w.view(shape[0], *shape[2:]))
        assert torch.equal(one, pool(X, w))
        assert torch.allclose(pool(X, torch.ones(2, 15)), pool(X), atol=1e-5)
    flat = X.flatten(2).double()
    expected = (flat * w[:, None]).sum(-1) / w.sum(-1, keepdim=True)
    assert torch.allclose(AveragePool(4)(X, w).double(), expected, atol=1e-6)


def test_one_position_and_an_empty_batch():
    for weights in (torch.ones(1, 1), torch.tensor([[0.0, 2.0, 0.0]]), torch.ones(0, 5)):
        B, N = weights.shape
        pooled = covariance_pool(random(B, 3, N), weights=weights)
        assert torch.equal(pooled, torch.zeros(B, 6))


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("method", ["exact", "newton", "cholesky"])
def test_whitening_of_repeated_and_masked_positions(method, masked):
    k = counts(6) > 0 if masked else counts(6)
    X = random(2, 3, 6).masked_fill(masked & (k == 0)[:, None], torch.nan).requires_grad_()

    def repeat(Z):
        return torch.cat([Z[i].repeat_interleave(k[i].long(), -1) for i in (0, 1)], -1)

    layers = [Whitening(3, method=method, eps=1e-9).double() for _ in range(2)]
    Y, plain = layers[0](X, k), layers[1](repeat(X.detach())[None])[0]
    assert torch.allclose(plain, repeat(Y), atol=1e-9)
    assert torch.autograd.grad(Y.sin().sum(), X)[0].isfinite().all()
    assert torch.allclose(layers[0].running_mean, layers[1].running_mean)
    assert not masked or bool((Y.mT[~k] == 0).all())
    # Weights are worth (sum w)^2 / sum w^2 values, of which the unbiased covariance has one less.
    n, count = k.sum(), k.sum() ** 2 / k.double().square().sum()
    new = [layer.running_covariance - 0.9 * torch.eye(3) for layer in layers]
    assert torch.allclose(new[0] * (count - 1) / count, new[1] * (n - 1) / n)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64])
def test_group_whitening_of_repeated_and_masked_positions(dtype):
    k = counts(6).to(dtype)
    X = random(2, 4, 6).requires_grad_()
    layer = GroupWhitening(4, groups=2, eps=1e-9)
    broken = X.masked_fill((k == 0)[:, None] & (dtype == torch.bool), torch.nan)
    Y = layer(broken, k)
    for i in (0, 1):
        expected = layer(X[i].repeat_interleave(k[i].long(), -1)[None])[0]
        assert torch.allclose(expected, Y[i].repeat_interleave(k[i].long(), -1), atol=1e-9)
    if dtype == torch.bool:
        assert bool((Y.mT[~k] == 0).all())
    assert torch.autograd.grad(Y.sin().sum(), X)[0].isfinite().all()


def test_dtype_and_layout():
    assert covariance(random(2, 3, 4).float()).dtype == torch.float32
    Y = random(4, 3, 2).permute(2, 1, 0)
    assert torch.allclose(covariance(Y), covariance(Y.contiguous()))


def test_a_constant_map_has_no_covariance():
    X = torch.full((2, 3, 7), 0.1) * torch.tensor([1.0, 3e38])[:, None, None]
    assert (covariance(X) == 0).all()


def test_broken_features_pass_through():
    assert covariance(torch.full((1, 2, 3), torch.nan)).isnan().all()
