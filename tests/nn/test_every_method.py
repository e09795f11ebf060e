"""What every method and layer keeps: the rest of the batch, forward mode, autocast, changes in place."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.linalg import LinAlgError

import matrices
from matrices import random, tangent, value_and_gradient
from rootpool.linalg import eigh, sqrtm
from rootpool.nn import (
    METHODS,
    CovariancePool,
    GroupWhitening,
    Whitening,
    covariance_pool,
    method_names,
)

PAPER_FORMS = method_names("published", "released")  # which keep no law
EVERY = [name for name in METHODS if name not in PAPER_FORMS]


def features(shape, seed):
    """Maps, some of them with dead or duplicate channels: singular covariances are ordinary."""
    X = matrices.random(*shape, seed=seed)
    if seed % 3 == 1:
        X[:, seed % shape[1]] = 0
    if seed % 3 == 2:
        X[:, 0] = X[:, -1]
    return X


# Square roots of eigenvalues at round-off level: what a singular covariance leaves of the precision.
ROUGH = 1e-6


@pytest.mark.parametrize("name", EVERY)
@settings(derandomize=True, deadline=None, max_examples=15)
@given(
    st.integers(1, 40),
    st.integers(1, 9),
    st.integers(1, 12),
    st.integers(0, 39),
    st.integers(0, 2**16),
)
def test_a_sample_does_not_depend_on_its_company(name, B, d, N, k, seed):
    """Neither its output nor its gradient, up to rounding."""
    X, k = features((B, d, N), seed), k % B
    G = matrices.random_symmetric(B, d, d, seed=seed + 1)
    pool = lambda X: covariance_pool(X, name, output="matrix")  # noqa: E731
    together = value_and_gradient(pool, X, G)
    others = (X + 1).roll(1, 0).mul(1e3)
    others[k] = X[k]
    for company, g, place in ((X[k : k + 1], G[k : k + 1], 0), (others, G, k)):
        for a, b in zip(together, value_and_gradient(pool, company, g), strict=True):
            assert (b[place] - a[k]).abs().max() <= ROUGH * (a[k].abs().max() + 1e-9)


@pytest.mark.parametrize("method", EVERY)
def test_forward_mode_of_every_method_is_that_of_its_backward(method):
    """Whatever a method calls its derivative, both modes have the same."""
    X = matrices.random(2, 3, 5)
    pool = lambda X: covariance_pool(X, method)  # noqa: E731
    V, W = matrices.random(2, 3, 5, seed=1), matrices.random(2, 6, seed=2)
    forward = torch.func.jvp(pool, (X,), (V,))[1]
    backward = torch.func.vjp(pool, X)[1](W)[0]
    assert torch.isclose((forward * W).sum(), (backward * V).sum(), rtol=1e-9)
    assert torch.allclose(tangent(pool, X, V), forward)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch._prims_common.check. is deprecated:FutureWarning")
def test_compile_with_inductor():
    """Every kind of derivative in one graph; the table of transformations compiles without inductor."""

    def loss(X):
        root = covariance_pool(X, "exact", output="matrix")
        return (eigh(root).eigenvectors @ sqrtm(root)).square().sum()

    X = matrices.random(2, 4, 6)
    gradients = []
    for f in (loss, torch.compile(loss, fullgraph=True)):
        Y = X.clone().requires_grad_()
        gradients.append(torch.autograd.grad(f(Y), Y)[0])
    assert torch.allclose(*gradients, rtol=1e-8, atol=1e-10)


def test_features_may_be_changed_in_place_after_pooling():
    X = matrices.random(2, 3, 9).requires_grad_()
    Y = X * 1
    pooled = covariance_pool(Y)
    Y.relu_()
    pooled.sum().backward()
    assert torch.allclose(X.grad, torch.autograd.grad(covariance_pool(X).sum(), X)[0])


def test_meta_tensors_and_numpy_integers():
    pool = CovariancePool(pytest.importorskip("numpy").int64(3))
    assert pool.to("meta")(torch.empty(2, 3, 9, device="meta")).shape == (2, 6)


# --------------------------------------------------------------------------------------------------
# Autocast

LAYERS = {
    "log-cholesky": lambda dtype: lambda X: covariance_pool(X, "log-cholesky", compute_dtype=dtype),
    "isice": lambda dtype: lambda X: covariance_pool(X, "isice", compute_dtype=dtype),
    "exact": lambda dtype: lambda X: covariance_pool(X, "exact", compute_dtype=dtype),
    "Whitening": lambda dtype: Whitening(3, 0.1, compute_dtype=dtype, method="cholesky").to(dtype),
    "GroupWhitening": lambda dtype: GroupWhitening(
        3, 3, 0.1, compute_dtype=dtype, method="cholesky"
    ),
}


def twice(layer, X):
    """The gradient of a loss, and that of its square."""
    X = X.clone().requires_grad_()
    (g,) = torch.autograd.grad(layer(X).sin().sum(), X, create_graph=True)
    return g.detach(), torch.autograd.grad(g.square().sum(), X)[0]


@pytest.mark.parametrize("name", LAYERS)
def test_both_backward_passes_in_autocast(name):
    X = random(2, 3, 8)
    expected = twice(LAYERS[name](torch.float64), X)
    with torch.autocast("cpu", torch.bfloat16):
        got = twice(LAYERS[name](torch.float32), X.float())
    for a, b in zip(got, expected, strict=True):
        assert (a - b).norm() <= 2e-4 * b.norm()  # bfloat16 would be wrong by 1e-3 to 1e-2


@pytest.mark.parametrize("method", ["exact", "log", "isqrt-cov"])
def test_overflow_in_half_precision_is_left_to_those_who_scale_the_loss(method):
    """A scaler of mixed precision looks for infinities and skips the step; in float32 they are an error."""
    X = torch.tensor([1.0, -1.0]) + 0.1 * random(
        1, 48, 2
    )  # of which all channels are nearly the same
    small = {torch.float16: 1e-2, torch.float32: 1e-16}
    for dtype, scale in small.items():
        features = (X * scale).to(dtype).requires_grad_()
        pooled = covariance_pool(features, method)
        upstream = torch.full_like(pooled, torch.finfo(dtype).max)
        if dtype == torch.float16:
            pooled.backward(upstream)
            assert not features.grad.isfinite().all()
        elif method != "log":  # whose ridge is larger than these covariances
            with pytest.raises(LinAlgError, match="the gradient of covariance_pool over"):
                pooled.backward(upstream)


@pytest.mark.parametrize("name", PAPER_FORMS)
def test_the_forms_of_the_paper_refuse_forward_mode(name):
    X = random(2, 3, 5)
    with pytest.raises(RuntimeError, match=f"{name} has no forward mode"):
        torch.func.jvp(lambda X: covariance_pool(X, name), (X,), (X,))
