"""Backward passes inside autocast: of methods whose operators are torch's own, and of half precision."""

import pytest
import torch

from matrices import random
from rootpool.nn import GroupWhitening, Whitening, covariance_pool, method_names

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
            with pytest.raises(
                torch.linalg.LinAlgError, match="the gradient of covariance_pool over"
            ):
                pooled.backward(upstream)


@pytest.mark.parametrize("name", method_names("published", "released"))
def test_the_forms_of_the_paper_refuse_forward_mode(name):
    X = random(2, 3, 5)
    with pytest.raises(RuntimeError, match=f"{name} has no forward mode"):
        torch.func.jvp(lambda X: covariance_pool(X, name), (X,), (X,))
