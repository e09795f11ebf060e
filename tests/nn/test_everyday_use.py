"""What users do to layers: each of these was wrong, or an error, once."""

import pytest
import torch

import matrices
from rootpool.linalg import eigh, sqrtm
from rootpool.nn import METHODS, CovariancePool, covariance_pool


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
