"""Laws of covariance pooling on generated feature maps."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import matrices
from rootpool.nn import METHODS, covariance_pool

laws = settings(derandomize=True, deadline=None, max_examples=15)
seeds = st.integers(0, 2**16)
PAPER_FORMS = ("published", "released")  # which keep no law
EVERY = [name for name in METHODS if METHODS[name].source not in PAPER_FORMS]


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
