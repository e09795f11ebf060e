"""The fused root of covariances: edge cases, precision, threads, transformations."""

import threading

import pytest
import torch

import matrices
from host_waits import waits_of_a_step
from matrices import relative_error
from rootpool.linalg import from_triangle, skip_checks, to_triangle
from rootpool.nn import (
    METHODS,
    Exact,
    SpectralRoot,
    SVDTaylor,
    SVDTopN,
    covariance,
    covariance_pool,
    fused,
)
from rootpool.nn.triangle import FULL_UP_TO, GATHER_UP_TO, pack_product, unpack_times
from tolerances import assert_same_to_rounding

ROOTS = [name for name, method in METHODS.items() if issubclass(method, SpectralRoot)]


def gradient(X, method="exact", **options):
    X = X.clone().requires_grad_()
    out = covariance_pool(X, method, **options)
    weight = matrices.random(*out.shape, seed=9).to(out.dtype)
    return torch.autograd.grad((out * weight).sum(), X)[0]


@pytest.mark.parametrize("output", ["triangle", "matrix"])
@pytest.mark.parametrize(
    "shape", [(2, 5, 3), (2, 4, 4), (2, 3, 7), (1, 4, 2), (3, 1, 5), (1, 2, 2, 3)]
)
def test_gradcheck(shape, output):
    X = matrices.random(*shape).requires_grad_()
    assert torch.autograd.gradcheck(lambda X: covariance_pool(X, output=output), X)


@pytest.mark.parametrize("shape", [(2, 5, 4), (2, 3, 8)])
def test_value(shape):
    X = matrices.random(*shape)
    Q = covariance_pool(X, output="matrix")
    assert relative_error(Q @ Q, covariance(X)) < 1e-13
    assert torch.allclose(to_triangle(Q), covariance_pool(X), rtol=1e-14)


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
        X = torch.linalg.qr(torch.cat([torch.ones(8, 1), torch.randn(8, 6)], 1).double())[0]
        X = X[:, 1:].mT.expand(3, 6, 8)
    return X


@pytest.mark.parametrize("name", ROOTS)
@pytest.mark.parametrize(
    ("kind", "N"),
    [("zero", 4), ("constant", 1), ("dead channels", 4), ("duplicate channels", 9), ("one hot", 6),
     ("repeated", 8), ("one zero map among others", 9)],
)  # fmt: skip
def test_edge_cases_have_the_value_of_the_covariance(kind, N, name):
    """The root of rounding errors of the covariance is what the two may differ by."""
    X, method = edge_case(kind, N), METHODS[name]()
    value = covariance_pool(X, method, output="matrix")
    expected = method(covariance(X))
    assert torch.allclose(value, expected, rtol=1e-7, atol=1e-7 * max(1, float(X.abs().max())))
    assert gradient(X, method).isfinite().all()


@pytest.mark.parametrize("N", [4, 9])
@pytest.mark.parametrize(
    ("scale", "dtype", "name"),
    [
        (1e-250, torch.float64, "exact"),
        (1e250, torch.float64, "exact"),
        (1e-30, torch.float32, "exact"),
        (1e30, torch.float32, "exact"),
        # Those of the paper have an absolute floor below.
        *((1e250, torch.float64, n) for n in ROOTS if n not in ("exact", "seb")),
        (1e20, torch.float32, "svd-taylor"),
    ],
)
def test_scaling_law(scale, dtype, name, N):
    """Q(c X) = c Q(X), so the gradient does not change with the scale."""
    X, method, options = (
        edge_case("ordinary", N).to(dtype),
        METHODS[name](),
        {"compute_dtype": dtype},
    )
    scaled = covariance_pool(X * scale, method, **options) / scale
    tolerance = 10 * matrices.TOLERANCE[dtype]
    if name != "exact":  # at the scale 1 the floor still shows: sqrt(eps)
        tolerance = 10 * torch.finfo(dtype).eps ** 0.5
    assert relative_error(scaled, covariance_pool(X, method, **options)) < tolerance
    expected = gradient(X, method, **options)
    assert relative_error(gradient(X * scale, method, **options), expected) < tolerance
    alone = gradient(X[:1] * scale, method, **options)
    assert relative_error(alone, gradient(X[:1], method, **options)) < tolerance


@pytest.mark.parametrize("scale", [3e38, 1.5e38, 1e-38, 1e-44])
def test_ends_of_the_range_of_float32(scale):
    X = torch.tensor([[[-0.5, 0.5], [0.0, 0.25]]]) * scale
    got = covariance_pool(X, compute_dtype=torch.float32)
    assert torch.allclose(got / scale, covariance_pool(X.double()).float() / scale, rtol=1e-4)


@pytest.mark.parametrize("threads", [1, 2])
def test_autocast_does_not_reach_the_products(threads):
    before, X = torch.get_num_threads(), matrices.random(3, 6, 9, dtype=torch.float32)
    expected = covariance_pool(X, compute_dtype=torch.float32)
    expected_gradient = gradient(X, compute_dtype=torch.float32)
    torch.set_num_threads(threads)
    try:
        with torch.autocast("cpu", torch.bfloat16):
            value = covariance_pool(X, compute_dtype=torch.float32)
            # In bfloat16 both would be wrong by 1e-2.
            assert_same_to_rounding(value, expected)
            assert_same_to_rounding(
                gradient(X, compute_dtype=torch.float32), expected_gradient, condition=100
            )
            assert covariance(X).dtype == torch.float32
    finally:
        torch.set_num_threads(before)


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


def test_constant_map_has_an_exactly_zero_root():
    assert (covariance_pool(edge_case("constant", 4).float()) == 0).all()
    assert (gradient(edge_case("constant", 4)) == 0).all()


def test_repeated_singular_values_against_finite_differences():
    torch.manual_seed(0)
    X = edge_case("repeated", 8).clone().requires_grad_()
    assert torch.autograd.gradcheck(covariance_pool, X)


def test_gradient_of_a_singular_covariance_along_features():
    """Duplicate channels: rank 3 in 6 channels for every nearby map that keeps them equal."""
    half = matrices.random(2, 3, 9).requires_grad_()
    assert torch.autograd.gradcheck(lambda H: covariance_pool(torch.cat([H, H], 1)), half)


@pytest.mark.parametrize("name", ROOTS)
def test_a_sample_does_not_depend_on_its_company(name):
    X, method = matrices.random(9, 6, 4), name
    together, alone = covariance_pool(X, method), covariance_pool(X[5:6], method)
    assert_same_to_rounding(together[5:6], alone)
    broken = X.clone()
    broken[:5] *= 1e8
    assert_same_to_rounding(covariance_pool(broken, method)[5:6], alone)


@pytest.mark.parametrize("shape", [(40, 24, 9), (9, 70, 30), (3, 20, 40)])
def test_the_number_of_threads_does_not_matter(shape):
    X, before = matrices.random(*shape), torch.get_num_threads()
    try:
        results = []
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            results.append((covariance_pool(X), gradient(X), gradient(X, SVDTaylor())))
            assert torch.get_num_threads() == count
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert_same_to_rounding(b, a, n=shape[1], condition=1e3)


def test_float32_features_are_computed_in_float64():
    X = matrices.random(2, 8, 5, dtype=torch.float32)
    assert covariance_pool(X).dtype == torch.float32
    assert relative_error(covariance_pool(X), covariance_pool(X.double())) < 1e-7
    assert gradient(X).dtype == torch.float32
    assert relative_error(gradient(X, compute_dtype=torch.float32), gradient(X)) < 1e-4


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_features(dtype):
    X = matrices.random(2, 8, 5).to(dtype)
    out = covariance_pool(X)
    assert out.dtype == gradient(X).dtype == dtype
    assert relative_error(out.double(), covariance_pool(X.double())) < torch.finfo(dtype).eps


def test_non_contiguous_features_and_gradient():
    X = matrices.random(5, 2, 6).permute(1, 2, 0).requires_grad_()
    out = covariance_pool(X)
    weight = matrices.random(out.shape[1], out.shape[0]).mT
    (got,) = torch.autograd.grad(out, X, weight)
    Y = X.detach().contiguous().requires_grad_()
    (expected,) = torch.autograd.grad(covariance_pool(Y), Y, weight.contiguous())
    assert_same_to_rounding(got, expected)


def test_empty_batch():
    X = torch.zeros(0, 4, 3, requires_grad=True)
    covariance_pool(X).sum().backward()
    assert X.grad.shape == X.shape


@pytest.mark.parametrize("name", ["exact", "svd-taylor", "svd-topn", "svd-newton"])
@pytest.mark.parametrize("output", ["triangle", "matrix"])
def test_compile_without_graph_breaks(name, output):
    def loss(X):
        return covariance_pool(X, name, output=output).sin().sum()

    torch._dynamo.reset()
    X = matrices.random(3, 5, 4).requires_grad_()
    (expected,) = torch.autograd.grad(loss(X), X)
    (got,) = torch.autograd.grad(torch.compile(loss, fullgraph=True, backend="aot_eager")(X), X)
    assert torch.allclose(got, expected, rtol=1e-12)


def test_second_derivative_is_refused_loudly():
    X = matrices.random(1, 3, 5).requires_grad_()
    (first,) = torch.autograd.grad(covariance_pool(X, "svd-pade").sum(), X, create_graph=True)
    with pytest.raises(RuntimeError, match=r"second derivatives .* use the method 'exact'"):
        first.sum().backward()
    once = torch.func.grad(lambda X: covariance_pool(X, "svd-pade").sin().sum())
    twice = torch.func.grad(lambda X: once(X).sum())
    with pytest.raises(RuntimeError, match=r"second derivatives .* do not exist"):
        twice(X.detach())


def test_nothing_is_kept_without_gradient():
    X = matrices.random(2, 4, 3).requires_grad_()
    with torch.no_grad():
        assert covariance_pool(X).grad_fn is None
    with torch.inference_mode():
        assert covariance_pool(X).is_inference()


def test_bad_input():
    X = matrices.random(5, 4, 3)
    X[3, 1, 2] = torch.nan
    with pytest.raises(
        ValueError, match=r"features\[3\] has NaN .* the features are broken, not the"
    ):
        covariance_pool(X)
    with pytest.raises(ValueError, match=r"features \(B, C, H, W\) or \(B, C, N\), got \(4, 3\)"):
        covariance_pool(X[0])
    with pytest.raises(ValueError, match=r"at least one channel and one position, got \(2, 3, 0\)"):
        covariance_pool(torch.zeros(2, 3, 0))
    with pytest.raises(TypeError, match=r"floating-point features, got torch.int64"):
        covariance_pool(torch.zeros(2, 3, 4, dtype=torch.int64))
    with pytest.raises(
        ValueError, match="output must be one of triangle, isometric, matrix, got 'vector'"
    ):
        covariance_pool(torch.zeros(2, 3, 4), output="vector")


@pytest.mark.parametrize("d", [1, 2, 63, 64, 65, 300, FULL_UP_TO + 1, GATHER_UP_TO + 1])
@pytest.mark.parametrize("dtype", matrices.DTYPES)
def test_triangles_of_products(d, dtype):
    """Packing and unpacking, on both sides of each change of algorithm."""
    W = matrices.random(2, d, 3)
    out = torch.empty(2, d * (d + 1) // 2, dtype=dtype)
    pack_product(W, W, out)
    assert torch.allclose(out, to_triangle(W @ W.mT).to(dtype))
    g = matrices.random(*out.shape, seed=1)
    S = from_triangle(g)
    doubled = S + torch.diag_embed(S.diagonal(dim1=1, dim2=2))  # G + G^T doubles the diagonal
    assert torch.allclose(unpack_times(g, W), doubled @ W)


def test_topn_keeps_the_largest():
    X = matrices.random(2, 5, 9)
    Q = covariance_pool(X, SVDTopN(2), output="matrix")
    expected = torch.linalg.eigvalsh(covariance_pool(X, Exact(), output="matrix"))
    assert torch.allclose(torch.linalg.eigvalsh(Q)[:, -2:], expected[:, -2:])
    assert torch.linalg.eigvalsh(Q)[:, :-2].abs().max() < 1e-14


@pytest.mark.parametrize("name", ROOTS)
@pytest.mark.parametrize(
    ("scale", "dtype"), [(2.0**-1040, torch.float64), (2.0**-138, torch.float32)]
)
def test_denormal_features(name, scale, dtype):
    X = (edge_case("ordinary", 4) * scale).to(dtype)
    options = {"compute_dtype": dtype}
    assert covariance_pool(X, name, **options).isfinite().all()
    assert gradient(X, name, **options).isfinite().all()


def test_maps_of_extreme_scale_do_not_touch_the_others():
    X = edge_case("ordinary", 4).float() * 1e-6
    Y = X.clone()
    Y[0] *= 1e35
    options = {"compute_dtype": torch.float32}
    assert_same_to_rounding(
        covariance_pool(Y, **options)[1:], covariance_pool(X, **options)[1:], n=6
    )
    assert_same_to_rounding(gradient(Y, **options)[1:], gradient(X, **options)[1:], condition=100)


def test_features_far_from_zero_are_centred_before_they_are_rounded():
    X = matrices.random(2, 4, 9)
    got = covariance_pool(X + 1e6, compute_dtype=torch.float32)
    assert relative_error(got, covariance_pool(X)) < 1e-5


def test_differences_beyond_the_range_are_an_error():
    X = torch.tensor([[[3e38, -3e38, 0.0]]])
    with pytest.raises(
        ValueError, match=r"differences of features are beyond the range of torch.f"
    ):
        covariance_pool(X, compute_dtype=torch.float32)
    assert covariance_pool(X).isfinite().all()


# ------------------------------------------------------------------------------------- accelerators


@pytest.fixture
def accelerator(monkeypatch):
    """Tensors that count as being on another device."""
    monkeypatch.setattr(fused, "_on_cpu", lambda tensor: False)
    threads = []
    for name in ("_decompose", "_gradient"):
        whole = getattr(fused, name)

        def spy(*args, whole=whole):
            threads.append(threading.current_thread())
            return whole(*args)

        monkeypatch.setattr(fused, name, spy)
    return threads


def test_an_accelerator_is_used_from_the_calling_thread(accelerator):
    """Another thread has another current stream."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        X = matrices.random(64, 24, 9).requires_grad_()
        with torch.no_grad():
            covariance_pool(X)
        covariance_pool(X).sum().backward()
    finally:
        torch.set_num_threads(before)
    assert accelerator == [threading.current_thread()] * 3  # autograd uses the caller's, too


@pytest.mark.parametrize("name", ROOTS)
def test_a_training_step_can_do_without_waiting_for_values(accelerator, name):
    def step():
        return waits_of_a_step(lambda X: [covariance_pool(X, name)], matrices.random(2, 5, 9))

    assert sum(step()) > 0
    with skip_checks():
        assert sum(step()) == 0


def test_the_path_of_accelerators_gives_the_same(accelerator, monkeypatch):
    X = torch.cat([edge_case("ordinary", 9), edge_case("ordinary", 9) * 1e200])
    Q, g = covariance_pool(X), gradient(X)
    monkeypatch.undo()
    assert_same_to_rounding(Q[:3], covariance_pool(X)[:3])
    assert_same_to_rounding(Q[3:], covariance_pool(X)[3:])
    assert_same_to_rounding(g, gradient(X), condition=1e3)
