"""The fused root of covariances: edge cases, precision, threads, transformations."""

import itertools
import threading

import pytest
import torch

import matrices
from matrices import relative_error, value_and_gradient
from rootpool.linalg import from_triangle, to_triangle
from rootpool.nn import (
    METHODS,
    SpectralRoot,
    SVDTrunc,
    covariance,
    covariance_pool,
    fused,
    triangle,
)
from tolerances import assert_same_to_rounding

ROOTS = [name for name, method in METHODS.items() if issubclass(method, SpectralRoot)]


def gradient(X, method="exact", **options):
    X = X.clone().requires_grad_()
    out = covariance_pool(X, method, **options)
    weight = matrices.random(*out.shape, seed=9).to(out.dtype)
    return torch.autograd.grad((out * weight).sum(), X)[0]


def edge_case(kind, N):
    X = matrices.random(3, 6, N)
    if kind == "zero":
        X = X * 0
    elif kind == "constant":
        X = X * 0 + matrices.random(3, 6, 1, seed=1) * 1e3
    elif kind == "dead channels":
        X[:, 1:4] = 0
    elif kind == "duplicate channels":
        X[:, 3:] = X[:, :3]
    elif kind == "one hot":
        X = torch.nn.functional.one_hot(torch.arange(N) % 6, 6).double().mT.expand(3, 6, N)
    elif kind == "one zero map among others":
        X[1] = 0
    elif kind == "repeated":  # orthogonal rows of equal length, centred
        frame = torch.cat([torch.ones(N, 1), matrices.random(N, 6)], 1)
        X = torch.linalg.qr(frame)[0][:, 1:].mT.expand(3, 6, N)
    return X.contiguous()


KINDS = {
    "more positions": 9, "as many positions": 6, "fewer positions": 3, "zero": 4, "constant": 1,
    "dead channels": 4, "duplicate channels": 9, "one zero map among others": 9,
    "one hot": 6, "repeated": 8,
}  # fmt: skip
# Between equal eigenvalues a rule depends on the rounding of their gap, which no two ways share.
AT_TIES = ("exact", "svd-newton", "newton-fused", "seb")


@pytest.mark.parametrize(
    ("kind", "name"),
    [(k, n) for k in KINDS for n in ROOTS if k not in ("one hot", "repeated") or n in AT_TIES],
)
def test_value_and_gradient_are_those_of_the_method_of_the_covariance(kind, name):
    """Up to the root of rounding errors of the covariance, which methods raise to eps or not."""
    X, method = edge_case(kind, KINDS[kind]), METHODS[name]()
    if name == "svd-trunc":  # clipped here, and not only at gaps that no map has
        method = SVDTrunc(bound=0.5)
    G = matrices.random(3, 6, 6, seed=1)
    fused = value_and_gradient(lambda X: covariance_pool(X, method, output="matrix"), X, G)
    composed = value_and_gradient(lambda X: method(covariance(X)), X, G)
    for got, expected in zip(fused, composed, strict=True):
        assert (got - expected).abs().max() <= 3e-8 * expected.abs().max()
    if name in ("exact", "svd-topn"):  # without a floor
        assert relative_error(fused[0] @ fused[0] + 1, covariance(X) + 1) < 1e-13


@pytest.mark.parametrize("name", [n for n in ROOTS if n != "seb"])
@pytest.mark.parametrize("N", [4, 9])
def test_scaling_law(name, N):
    """Q(c X) = c Q(X), so the gradient does not change with the scale: of a batch, and of a map alone.

    Without a floor at every scale, as the torture run tests in full; with one, upwards.
    """
    for dtype, scales in ((torch.float64, (1e250, 1e-250)), (torch.float32, (1e20, 1e-30))):
        options = {"method": name, "compute_dtype": dtype}
        X, exact = edge_case("ordinary", N).to(dtype), name == "exact"
        # At the scale 1 the floor still shows: sqrt(eps).
        tolerance = 10 * (matrices.TOLERANCE[dtype] if exact else torch.finfo(dtype).eps ** 0.5)
        for scale, Y in itertools.product(scales if exact else scales[:1], (X, X[:1])):
            scaled = covariance_pool(Y * scale, **options) / scale
            assert relative_error(scaled, covariance_pool(Y, **options)) < tolerance
            got = gradient(Y * scale, **options)
            assert relative_error(got, gradient(Y, **options)) < tolerance


@pytest.mark.parametrize("shape", [(40, 24, 9), (9, 70, 30), (3, 20, 40)])
@pytest.mark.parametrize("method", ["exact", "svd-taylor"])
def test_neither_threads_nor_autocast_matter(shape, method, threads):
    """Autocast must not reach the products: in bfloat16 both results would be wrong by 1e-2."""
    X, options = matrices.random(*shape), {"method": method}
    results = []
    for count, dtype in itertools.product((1, 2, 5), matrices.DTYPES):
        threads(count)
        Y, options["compute_dtype"] = X.to(dtype), dtype
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.float32):
            results.append((covariance_pool(Y, **options), gradient(Y, **options)))
        assert torch.get_num_threads() == count
    for first, others in ((results[0], results[2::2]), (results[1], results[3::2])):
        for a, b in itertools.chain(*(zip(first, other, strict=True) for other in others)):
            assert_same_to_rounding(b, a, n=shape[1], condition=1e3)
    for single, double in zip(results[1], results[0], strict=True):
        assert relative_error(single, double) < 1e-3


def test_newton_has_a_gradient_below_the_floor_of_its_value():
    X = matrices.random(2, 3, 9) * 1e-9  # eigenvalues near 1e-18, below eps
    assert (
        relative_error(
            gradient(X, METHODS["svd-newton"]()), gradient(X * 1e9, METHODS["svd-newton"]())
        )
        < 1e-9
    )
    floor = torch.finfo(torch.float64).eps ** 0.5
    value = covariance_pool(X, METHODS["svd-newton"](), output="matrix")
    assert torch.allclose(value, floor * torch.eye(3).double(), rtol=1e-6)


def test_non_contiguous_features_and_gradient():
    X = matrices.random(5, 2, 6).permute(1, 2, 0).requires_grad_()
    out = covariance_pool(X)
    weight = matrices.random(out.shape[1], out.shape[0]).mT
    (got,) = torch.autograd.grad(out, X, weight)
    Y = X.detach().contiguous().requires_grad_()
    (expected,) = torch.autograd.grad(covariance_pool(Y), Y, weight.contiguous())
    assert_same_to_rounding(got, expected)


def test_nothing_is_kept_without_gradient():
    X = matrices.random(2, 4, 3).requires_grad_()
    with torch.no_grad():
        assert covariance_pool(X).grad_fn is None
    with torch.inference_mode():
        assert covariance_pool(X).is_inference()


@pytest.mark.parametrize("d", [1, 2, 63, 64, 65, 300, triangle.FULL_UP_TO + 1, 1025])
@pytest.mark.parametrize("dtype", matrices.DTYPES)
@pytest.mark.parametrize("entries", [None, 2**26, 2 * 70**2])
def test_triangles_of_products(d, dtype, entries, monkeypatch):
    """Packing and unpacking, on both sides of each change of algorithm; with few launches, of few or all."""
    if entries is not None:
        monkeypatch.setattr(triangle, "ENTRIES_AT_ONCE", entries)
        monkeypatch.setattr(triangle, "_in_few_launches", lambda tensor: True)
    W = matrices.random(3, d, 3)
    out = torch.empty(3, d * (d + 1) // 2, dtype=dtype)
    triangle.pack_product(W, W, out)
    assert torch.allclose(out, to_triangle(W @ W.mT).to(dtype))
    g = matrices.random(*out.shape, seed=1)
    S = from_triangle(g)
    doubled = S + torch.diag_embed(S.diagonal(dim1=1, dim2=2))  # G + G^T doubles the diagonal
    assert torch.allclose(triangle.unpack_times(g, W), doubled @ W)


def test_features_far_from_zero_are_centred_before_they_are_rounded():
    X = matrices.random(2, 4, 9)
    got = covariance_pool(X + 1e6, compute_dtype=torch.float32)
    assert relative_error(got, covariance_pool(X)) < 1e-5


# ------------------------------------------------------------------------------------- accelerators


@pytest.fixture
def accelerator(monkeypatch):
    """Tensors that count as being on another device."""
    monkeypatch.setattr(fused, "_on_cpu", lambda tensor: False)
    threads = []
    for name in ("_decompose", "gradient"):
        whole = getattr(fused, name)

        def spy(*args, whole=whole):
            threads.append(threading.current_thread())
            return whole(*args)

        monkeypatch.setattr(fused, name, spy)
    return threads


def test_an_accelerator_is_used_from_the_calling_thread(accelerator, threads):
    """Another thread has another current stream."""
    threads(2)
    X = matrices.random(64, 24, 9).requires_grad_()
    with torch.no_grad():
        covariance_pool(X)
    covariance_pool(X).sum().backward()
    assert accelerator == [threading.current_thread()] * 3  # autograd uses the caller's, too


def test_the_path_of_accelerators_gives_the_same(accelerator, monkeypatch):
    X = torch.cat([edge_case("ordinary", 9), edge_case("ordinary", 9) * 1e200])
    Q, g = covariance_pool(X), gradient(X)
    monkeypatch.undo()
    assert_same_to_rounding(Q[:3], covariance_pool(X)[:3])
    assert_same_to_rounding(Q[3:], covariance_pool(X)[3:])
    assert_same_to_rounding(g, gradient(X), condition=1e3)
