"""Adaptive channel dropout, alone and in a pooling."""

import math

import pytest
import torch

import matrices
from fake_cuda import Waits
from rootpool.nn import AdaptiveChannelDropout, CovariancePool, covariance, covariance_pool
from rootpool.nn.follow_ups import drop_rate


def opposed(*shape):
    """Channels whose sum is small, so that row sums of their covariance have both signs."""
    X = matrices.random(*shape)
    return X - 0.8 * X.mean(1, keepdim=True)


@torch.no_grad()
def rate_by_loops(X, y):
    """From covariances that are formed, one map at a time."""
    cosines = []
    for P, weights in zip(covariance(X), y, strict=True):
        c = P.sum(1)
        cosines.append(float(weights @ c / (weights.norm() * c.norm())))
    rate = 1 - 10 / math.log2(X.shape[1]) * sum(cosines) / len(cosines)
    return min(max(rate, 0.0), 1.0)


def weights_by_loops(X, kernel):
    half, out = len(kernel) // 2, []
    for means in X.flatten(2).mean(2).tolist():
        padded = [0.0] * half + means + [0.0] * half
        logits = [
            sum(k * v for k, v in zip(kernel, padded[i:], strict=False)) for i in range(len(means))
        ]
        total = sum(math.exp(v) for v in logits)
        out.append([math.exp(v) / total for v in logits])
    return torch.tensor(out, dtype=torch.float64)


@pytest.mark.parametrize("shape", [(3, 9, 4, 5), (2, 6, 3), (1, 2, 7)])
@pytest.mark.parametrize("kernel_size", [1, 3, 5])
def test_weights_gain_and_rate_by_loops(shape, kernel_size):
    X, layer = matrices.random(*shape), AdaptiveChannelDropout(kernel_size).double().eval()
    y = weights_by_loops(X, layer.convolution.weight.flatten().tolist())
    assert torch.allclose(layer.weights(X), y, rtol=1e-12)
    expected = X * (1 + y).reshape(*y.shape, *(1,) * (X.dim() - 2))
    assert torch.allclose(layer(X), expected, rtol=1e-12)
    assert float(drop_rate(expected, y)) == pytest.approx(rate_by_loops(expected, y), abs=1e-12)


def test_whole_channels_are_dropped_at_the_rate_and_the_mean_stays():
    X = opposed(400, 16, 5)
    layer = AdaptiveChannelDropout().double()
    torch.manual_seed(0)
    out, gained = layer(X), layer.eval()(X)
    rate = rate_by_loops(gained, layer.weights(X))
    assert 0.1 < rate < 0.95
    dead = (out == 0).all(-1)
    assert dead.double().mean() == pytest.approx(rate, abs=0.03)
    assert torch.allclose(out[~dead], gained[~dead] / (1 - rate), rtol=1e-9)
    assert ((out == 0).any(-1) == dead).all()


def test_its_weights_learn_and_nothing_waits():
    layer, X = AdaptiveChannelDropout().double(), matrices.random(3, 8, 5).requires_grad_()
    with Waits() as waits:
        loss = layer(X).square().sum()
    loss.backward()
    assert waits.count == 0
    assert layer.convolution.weight.grad.abs().sum() > 0
    layer.eval()
    assert torch.autograd.gradcheck(layer, X)


def test_in_a_pooling():
    X = opposed(3, 8, 5).float()
    pool = CovariancePool(8, "covariance", channel_dropout=AdaptiveChannelDropout())
    assert "channel_dropout.convolution.weight" in pool.state_dict()
    assert not any(key.startswith("channel_dropout") for key in CovariancePool(8).state_dict())
    torch.manual_seed(3)
    trained = pool(X)
    torch.manual_seed(3)
    assert torch.allclose(trained, covariance_pool(pool.channel_dropout(X), "covariance"))
    pool.eval()
    assert torch.allclose(pool(X), covariance_pool(pool.channel_dropout(X), "covariance"))
    assert torch.export.export(pool, (X,)).module()(X).shape == (3, 36)
