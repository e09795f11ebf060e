"""Laws of covariance pooling on generated feature maps."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import matrices
from rootpool.nn import METHODS, covariance_pool

laws = settings(derandomize=True, deadline=None, max_examples=15)
seeds = st.integers(0, 2**16)
shapes = st.tuples(st.integers(1, 3), st.integers(1, 6), st.integers(2, 9))
PAPER_FORMS = ("published", "released")  # which keep no law
EVERY = [name for name in METHODS if METHODS[name].source not in PAPER_FORMS]
# Which changes of the channels a method does not follow: every function of eigenvalues follows all.
BY_ENTRY = ("brownian", "isice", "signed-sqrt", "log-cholesky")
TURNING = [name for name in EVERY if name not in BY_ENTRY]
ORDERLESS = [name for name in EVERY if name != "log-cholesky"]
CENTRED = [name for name in EVERY if METHODS[name].centred]


def pool_and_gradient(X, name, G):
    X = X.clone().requires_grad_()
    Q = covariance_pool(X, name, output="matrix")
    return Q.detach(), torch.autograd.grad(Q, X, G)[0]


def features(shape, seed):
    """Maps, some of them with dead or duplicate channels: singular covariances are ordinary."""
    X = matrices.random(*shape, seed=seed)
    if seed % 3 == 1:
        X[:, seed % shape[1]] = 0
    if seed % 3 == 2:
        X[:, 0] = X[:, -1]
    return X


def upstream(shape, seed):
    return matrices.random_symmetric(shape[0], shape[1], shape[1], seed=seed + 1)


# Square roots of eigenvalues at round-off level: what a singular covariance leaves of the precision.
ROUGH = 1e-6


@pytest.mark.parametrize("name", TURNING)
@laws
@given(shapes, seeds)
def test_value_turns_with_the_channels(name, shape, seed):
    """Q(R X) = R Q(X) R' for orthogonal R."""
    X, R = features(shape, seed), matrices.orthogonal(shape[1], seed + 2)
    expected = R @ covariance_pool(X, name, output="matrix") @ R.mT
    got = covariance_pool(R @ X, name, output="matrix")
    assert (got - expected).abs().max() <= ROUGH * (1 + expected.abs().max())


@laws
@given(shapes, seeds)
def test_exact_gradient_turns_with_the_channels(shape, seed):
    X, G, R = (
        matrices.random(*shape, seed=seed),
        upstream(shape, seed),
        matrices.orthogonal(shape[1]),
    )
    expected = R @ pool_and_gradient(X, "exact", G)[1]
    got = pool_and_gradient(R @ X, "exact", R @ G @ R.mT)[1]
    assert (got - expected).abs().max() <= ROUGH * (1 + expected.abs().max())


@pytest.mark.parametrize("name", ORDERLESS)
@laws
@given(shapes, seeds)
def test_permutations_of_channels_and_positions(name, shape, seed):
    X, generator = features(shape, seed), torch.Generator().manual_seed(seed)
    channels = torch.randperm(shape[1], generator=generator)
    positions = torch.randperm(shape[2], generator=generator)
    expected = covariance_pool(X, name, output="matrix")[:, channels][:, :, channels]
    got = covariance_pool(X[:, channels][:, :, positions], name, output="matrix")
    assert (got - expected).abs().max() <= ROUGH * (1 + expected.abs().max())


@pytest.mark.parametrize("name", ["exact", "svd-topn", "isqrt-cov", "power"])
@laws
@given(shapes, seeds, st.integers(-40, 40))
def test_scaling_of_methods_without_a_floor(name, shape, seed, exponent):
    """Q(c X) = c Q(X), and the gradient does not change."""
    X, G, c = features(shape, seed), upstream(shape, seed), 4.0**exponent
    Q, gradient = pool_and_gradient(X, name, G)
    scaled = pool_and_gradient(c * X, name, G)
    assert (scaled[0] / c - Q).abs().max() <= ROUGH * Q.abs().max()
    assert (scaled[1] - gradient).abs().max() <= ROUGH * gradient.abs().max()


@pytest.mark.parametrize("name", CENTRED)
@laws
@given(shapes, seeds, st.floats(-100, 100))
def test_the_mean_does_not_matter(name, shape, seed, shift):
    X = features(shape, seed)
    moved = X + shift * torch.arange(1, shape[1] + 1).double().unsqueeze(-1)
    got, expected = (covariance_pool(Y, name, output="matrix") for Y in (moved, X))
    assert (got - expected).abs().max() <= ROUGH * (1 + expected.abs().max())
    gradient = pool_and_gradient(X, name, upstream(shape, seed))[1]
    assert gradient.sum(-1).abs().max() <= ROUGH * (1 + gradient.abs().max())


@pytest.mark.parametrize("name", EVERY)
@laws
@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 12), st.integers(0, 39), seeds)
def test_a_sample_does_not_depend_on_its_company(name, B, d, N, k, seed):
    """Neither its output nor its gradient, up to rounding."""
    X, k = features((B, d, N), seed), k % B
    G = upstream((B, d, N), seed)
    together = pool_and_gradient(X, name, G)
    others = (X + 1).roll(1, 0).mul(1e3)
    others[k] = X[k]
    for company, g, place in ((X[k : k + 1], G[k : k + 1], 0), (others, G, k)):
        for a, b in zip(together, pool_and_gradient(company, name, g), strict=True):
            assert (b[place] - a[k]).abs().max() <= ROUGH * (a[k].abs().max() + 1e-9)
