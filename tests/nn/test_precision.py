"""Precision by device: float32 features, a float64 decomposition, products in float32."""

import warnings

import pytest
import torch

from matrices import DEVICE, relative_error
from rootpool.nn import CovariancePool, covariance_pool, precision

EPS = torch.finfo(torch.float32).eps
SHAPES = [(3, 40, 17), (3, 24, 24), (3, 20, 61)]


def features(shape, condition=None, scale=1.0):
    """Float32 features whose singular values, if asked, fall evenly from 1 to 1 / condition."""
    generator = torch.Generator(DEVICE).manual_seed(0)
    X = torch.randn(*shape, generator=generator, dtype=torch.float64)
    if condition is not None:
        U, s, Vt = torch.linalg.svd(X - X.mean(-1, keepdim=True), full_matrices=False)
        rank = min(shape[1], shape[2] - 1)
        falling = torch.logspace(0, -torch.tensor(condition).log10(), rank, dtype=torch.float64)
        X = (U[..., :rank] * falling) @ Vt[:, :rank]
    return (X * scale).float().to(DEVICE)


def pooled(X, compute_dtype=None, method="exact", output="matrix"):
    """The result, and the gradient for a fixed gradient of the result."""
    X = X.clone().requires_grad_()
    Q = covariance_pool(X, method, compute_dtype=compute_dtype, output=output)
    g = torch.randn(Q.shape, generator=torch.Generator(DEVICE).manual_seed(1)).to(Q)
    return Q.detach(), torch.autograd.grad(Q, X, g)[0]


@pytest.mark.parametrize("output", ["matrix", "triangle"])
@pytest.mark.parametrize("scale", [1e-25, 1.0, 1e25])
@pytest.mark.parametrize("condition", [None, 1e2, 1e6])
@pytest.mark.parametrize("shape", SHAPES)
def test_errors_are_roundings_of_the_features_at_every_condition_and_scale(
    shape, condition, scale, output
):
    X = features(shape, condition, scale)
    expected = pooled(X.double(), torch.float64, output=output)
    for got, true in zip(pooled(X, output=output), expected, strict=True):
        assert got.dtype == torch.float32
        assert relative_error(got, true) < 8 * EPS


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        *(((2, 12, 7), dtype) for dtype in (torch.float16, torch.bfloat16)),
        *((shape, torch.float32) for shape in [(0, 4, 9), (2, 5, 1), (2, 1, 6), (1, 3, 2)]),
    ],
)
def test_half_precision_and_small_batches_lose_nothing_but_the_last_rounding(shape, dtype):
    X = features(shape).to(dtype)
    for got, true in zip(pooled(X), pooled(X.double(), torch.float64), strict=True):
        assert (got - true).norm() <= 8 * torch.finfo(dtype).eps * true.norm()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_small_singular_value_is_not_lost(shape):
    X = features(shape, 1e5)
    direction = torch.linalg.svd(X.double() - X.double().mean(-1, keepdim=True))[0][
        ..., min(shape[1], shape[2] - 1) - 1
    ]

    def part(compute_dtype, X=X):
        return (direction.unsqueeze(1) @ pooled(X, compute_dtype)[1].double()).squeeze(1)

    expected = part(torch.float64, X.double())
    assert relative_error(part(None), expected) < 50 * EPS
    assert relative_error(part(torch.float32), expected) > 0.1  # there it is


def saved_dtypes(X, **options):
    """The dtypes of what the backward keeps, but for vectors of singular values."""
    found = set()

    def note(tensor):
        if tensor.dim() == 3 and not tensor.is_set_to(X) and tensor.stride() != (0, 0, 0):
            found.add(tensor.dtype)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        covariance_pool(X.requires_grad_(), **options)
    return found


def test_the_backward_keeps_the_digits_of_the_features():
    single, double = {torch.float32}, {torch.float64}
    assert saved_dtypes(features((2, 8, 5))) == single
    assert saved_dtypes(features((2, 8, 5)).half()) == single
    assert saved_dtypes(features((2, 8, 5)).double()) == double
    assert saved_dtypes(features((2, 8, 5)), compute_dtype=torch.float64) == double
    assert saved_dtypes(features((2, 8, 5)), method="svd-pade") == double


@pytest.mark.parametrize("shape", SHAPES)
def test_the_other_derivatives_agree_with_those_in_float64(shape):
    X = features(shape, 10.0)
    H = features(shape)

    def loss(X):
        return covariance_pool(X, output="matrix").square().sum((-2, -1)).sqrt().sum()

    def both(X, H):
        change = torch.func.jvp(lambda X: covariance_pool(X, output="matrix"), (X,), (H,))[1]
        second = torch.func.jvp(torch.func.grad(loss), (X,), (H,))[1]
        return change, second

    for got, true in zip(both(X, H), both(X.double(), H.double()), strict=True):
        assert relative_error(got, true) < 1e3 * EPS


def test_float64_is_the_default_where_there_is_one():
    X = torch.randn(2, 4, 9, generator=torch.Generator().manual_seed(0))
    for features, method in ((X.double(), "exact"), (X, "svd-pade")):
        default = covariance_pool(features, method)
        assert torch.equal(default, covariance_pool(features, method, compute_dtype=torch.float64))
        assert not torch.equal(
            default, covariance_pool(features, method, compute_dtype=torch.float32)
        )
    assert CovariancePool(4).working_dtype(torch.device("cpu")) == torch.float64


def test_devices_without_float64_compute_in_float32_and_say_so_once():
    precision._notice.cache_clear()
    device = torch.device("mps")  # a name; nothing is computed there
    with pytest.warns(UserWarning, match=r"mps has no float64, so covariances .* in float32 here"):
        assert CovariancePool(4).working_dtype(device) == torch.float32
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert CovariancePool(4).working_dtype(device) == torch.float32
        assert precision.working_dtype(torch.float32, device) == torch.float32
