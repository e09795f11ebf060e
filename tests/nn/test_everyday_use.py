"""What users do to layers: each of these was wrong, or an error, once."""

import pytest
import torch

import matrices
from rootpool.linalg import eigh, sqrtm
from rootpool.nn import METHODS, CovariancePool, Whitening, covariance_pool


@pytest.mark.parametrize(("d", "N"), [(4, 3), (3, 3), (3, 6)])
def test_second_derivative_of_the_exact_root(d, N):
    X, V = matrices.random(2, d, N), matrices.random(2, d, N, seed=1)
    gradient = torch.func.grad(lambda X: covariance_pool(X).sin().sum())
    forward = torch.func.jvp(gradient, (X,), (V,))[1]
    backward = torch.func.vjp(gradient, X)[1](V)[0]
    numeric = (gradient(X + 1e-5 * V) - gradient(X - 1e-5 * V)) / 2e-5
    assert torch.allclose(forward, numeric, atol=1e-8)
    assert torch.allclose(backward, forward, atol=1e-12)


@pytest.mark.parametrize(
    "method", [n for n in METHODS if METHODS[n].source not in ("published", "released")]
)
def test_forward_mode_of_every_method_is_that_of_its_backward(method):
    """Whatever a method calls its derivative, both modes have the same."""
    X = matrices.random(2, 3, 5)
    pool = lambda X: covariance_pool(X, method)  # noqa: E731
    V, W = matrices.random(2, 3, 5, seed=1), matrices.random(2, 6, seed=2)
    forward = torch.func.jvp(pool, (X,), (V,))[1]
    backward = torch.func.vjp(pool, X)[1](W)[0]
    assert torch.isclose((forward * W).sum(), (backward * V).sum(), rtol=1e-9)
    with torch.autograd.forward_ad.dual_level():
        dual = pool(torch.autograd.forward_ad.make_dual(X, V))
        tangent = torch.autograd.forward_ad.unpack_dual(dual).tangent
    assert torch.allclose(tangent, forward)


def test_forward_mode_inside_a_compiled_function_is_an_error_or_right():
    X, V = matrices.random(2, 3, 5), matrices.random(2, 3, 5, seed=1)
    push = lambda X: torch.func.jvp(covariance_pool, (X,), (V,))[1]  # noqa: E731
    torch._dynamo.reset()
    with pytest.raises(Exception, match=r"forward-mode derivatives .* inside torch\.compile; take"):
        torch.compile(push, fullgraph=True, backend="eager")(X)
    torch._dynamo.reset()
    assert torch.allclose(torch.compile(push, backend="eager")(X), push(X))


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


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.bool, torch.complex64])
def test_whitening_takes_floating_point_features_alone(dtype):
    with pytest.raises(TypeError, match="Whitening expects floating-point features, got"):
        Whitening(3)(torch.ones(4, 3, dtype=dtype))


def test_whitening_names_itself():
    with pytest.raises(ValueError, match="Whitening: the features have NaN"):
        Whitening(3)(torch.full((4, 3), torch.nan))


def test_whitening_with_the_average_of_all_batches():
    layer, batches = Whitening(3, momentum=None), matrices.random(4, 8, 3, dtype=torch.float32)
    for batch in batches:
        layer(batch)
    assert torch.allclose(layer.running_mean, batches.flatten(0, 1).mean(0), atol=1e-6)
    layer.reset_running_stats()
    assert torch.equal(layer.running_covariance, torch.eye(3))


def test_gradients_beyond_the_range_are_an_error():
    X = matrices.random(2, 3, 9)
    for method in ("exact", "log"):
        Y = (X if method == "exact" else X.float() / 10).clone().requires_grad_()
        g = torch.full((2, 6), 1e308 if method == "exact" else 3e38, dtype=Y.dtype)
        with pytest.raises(torch.linalg.LinAlgError, match=r"the (gradient|derivative) of"):
            covariance_pool(Y, method).backward(g)


def test_meta_tensors_and_numpy_integers():
    pool = CovariancePool(pytest.importorskip("numpy").int64(3))
    assert pool.to("meta")(torch.empty(2, 3, 9, device="meta")).shape == (2, 6)
