"""Whitening by every method, in groups: against loops in NumPy, and through every transformation."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.linalg import LinAlgError

import matrices
from rootpool.linalg import Minimax
from rootpool.nn import (
    WHITENING_METHODS,
    CholeskyWhitening,
    ExactWhitening,
    GroupWhitening,
    NewtonWhitening,
    Whitening,
)

EPS = 1e-3
METHODS = tuple(WHITENING_METHODS)


def newton_matrix(S, iterations):
    """IterNorm's own iteration, not the coupled one."""
    trace = np.trace(S)
    P = np.eye(len(S))
    for _ in range(iterations):
        P = 1.5 * P - 0.5 * P @ P @ P @ (S / trace)
    return P / np.sqrt(trace)


def exact_matrix(S):
    lam, U = np.linalg.eigh(S)
    return (U / np.sqrt(lam)) @ U.T


MATRICES = {
    "exact": exact_matrix,
    "newton": lambda S: newton_matrix(S, 5),
    "cholesky": lambda S: np.linalg.inv(np.linalg.cholesky(S)),
}


def whitened_by_loops(rows, method, eps=EPS):
    """Whiten one ``(n, m)`` matrix."""
    centred = rows - rows.mean(1, keepdims=True)
    S = centred @ centred.T / rows.shape[1] + eps * np.eye(len(rows))
    return MATRICES[method](S) @ centred


def batch_by_loops(X, groups, method):
    X = X.numpy()
    Y = np.empty_like(X)
    n = X.shape[1] // groups
    for k in range(groups):
        part = X[:, k * n : (k + 1) * n]
        rows = np.moveaxis(part, 1, 0).reshape(n, -1)
        white = whitened_by_loops(rows, method)
        Y[:, k * n : (k + 1) * n] = np.moveaxis(white.reshape(n, len(X), *X.shape[2:]), 0, 1)
    return torch.from_numpy(Y)


def samples_by_loops(X, groups, method):
    X = X.numpy()
    white = [whitened_by_loops(x.reshape(groups, -1), method).reshape(x.shape) for x in X]
    return torch.from_numpy(np.stack(white))


LAYERS = {
    "whitening": (lambda *args, **options: Whitening(6, EPS, *args, **options), batch_by_loops),
    "group whitening": (
        lambda *args, **options: GroupWhitening(6, options.pop("groups", 3), EPS, **options),
        samples_by_loops,
    ),
}
every_layer = pytest.mark.parametrize("kind", LAYERS)
every_method = pytest.mark.parametrize("method", METHODS)


@every_layer
@every_method
@pytest.mark.parametrize("groups", [1, 2, 3, 6])
def test_values_are_those_of_loops_over_groups(kind, method, groups):
    make, by_loops = LAYERS[kind]
    for shape in ((9, 6), (4, 6, 5), (3, 6, 4, 2)):
        if kind == "group whitening" and len(shape) == 2 and groups == 6:
            continue  # one value per group
        X = matrices.random(*shape) * 3 + 1
        got, expected = make(groups=groups, method=method)(X), by_loops(X, groups, method)
        assert torch.allclose(got, expected, rtol=1e-11, atol=1e-11)


@every_method
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e3])
def test_rank_deficient_batches_by_loops(method, scale):
    X = matrices.random(16, 2) @ matrices.random(2, 6, seed=1) * scale
    expected = batch_by_loops(X / scale, 1, method)
    for dtype, tolerance in ((torch.float64, 1e-9), (torch.float32, 1e-2)):
        layer = Whitening(6, EPS * scale**2, compute_dtype=dtype, method=method)
        assert matrices.relative_error(layer(X.to(dtype)), expected) < tolerance


@every_layer
@every_method
@pytest.mark.parametrize("training", [True, False])
def test_gradients_first_and_second(kind, method, training):
    """At an ordinary batch, and where eigenvalues are equal: of a white one, and of zeros."""
    layer = LAYERS[kind][0](groups=2, affine=True, method=method).double().train(training)
    X = matrices.random(3, 6, 2)
    white = Whitening(6, 1e-12)(matrices.random(9, 6)).detach().unsqueeze(-1).repeat(1, 1, 2)
    weight, bias = (matrices.random(6, seed=k).requires_grad_() for k in (1, 2))

    def run(X, weight, bias):
        return torch.func.functional_call(layer, {"weight": weight, "bias": bias}, X)

    fast = {"fast_mode": True}  # random projections of the derivatives
    for Y in (X, white, 0 * X):
        inputs = (Y.requires_grad_(), weight, bias)
        assert torch.autograd.gradcheck(run, inputs, check_forward_ad=True, **fast)
    assert torch.autograd.gradgradcheck(run, (X.requires_grad_(), weight, bias), **fast)


@every_layer
@every_method
def test_affine_part_is_that_of_batch_norm(kind, method):
    plain = LAYERS[kind][0](method=method)
    layer = LAYERS[kind][0](method=method, affine=True)
    X = matrices.random(4, 6, 5, dtype=torch.float32)
    assert torch.equal(layer(X), plain(X))
    with torch.no_grad():
        layer.weight.copy_(torch.arange(1.0, 7.0))
        layer.bias.fill_(3)
    expected = plain(X) * torch.arange(1.0, 7.0).view(6, 1) + 3
    assert torch.allclose(layer(X), expected, rtol=1e-5, atol=1e-5)
    layer.reset_parameters()
    assert torch.equal(layer(X), plain(X))
    assert list(plain.parameters()) == []


@every_layer
@every_method
def test_transformations_and_layouts(kind, method):
    layer = LAYERS[kind][0](groups=2, affine=True, method=method)
    X = matrices.random(5, 4, 6, 3, 3, dtype=torch.float32)
    if method == "exact":
        torch._dynamo.reset()
        compiled = torch.compile(copy.deepcopy(layer), fullgraph=True, backend="eager")
        assert torch.allclose(compiled(X[0]), layer(X[0]), rtol=1e-5, atol=1e-5)
        for name, value in layer.state_dict().items():
            assert torch.allclose(value, compiled.state_dict()[f"_orig_mod.{name}"]), name
    layer.eval()  # which has no statistics to change
    expected = torch.stack([layer(x) for x in X])
    last = layer(X[0].to(memory_format=torch.channels_last))
    assert last.is_contiguous(memory_format=torch.channels_last)
    strided = X[0].repeat_interleave(2, 0).repeat_interleave(2, 3)[::2, :, :, ::2]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = layer(X[0])
    for other in (torch.vmap(layer)(X)[0], inside, last, layer(strided)):
        assert torch.allclose(other, expected[0], rtol=1e-5, atol=1e-5)
    half = layer(X[0].to(torch.bfloat16))
    assert half.dtype == torch.bfloat16
    assert torch.allclose(half.float(), expected[0], rtol=0.02, atol=0.05)
    assert layer.to("meta")(torch.empty(4, 6, 3, device="meta")).shape == (4, 6, 3)


@every_method
def test_running_statistics_of_groups_are_blocks_of_the_whole(method):
    whole, parts = Whitening(6, momentum=0.3), Whitening(6, momentum=0.3, groups=3, method=method)
    for seed in range(4):
        X = matrices.random(4, 6, 5, dtype=torch.float32, seed=seed) * 2 + 1
        whole(X), parts(X)
    assert parts.running_covariance.shape == (3, 2, 2)
    for k, block in enumerate(parts.running_covariance):
        part = slice(2 * k, 2 * k + 2)
        assert torch.allclose(block, whole.running_covariance[part, part], rtol=1e-5)
    parts.reset_running_stats()
    assert torch.equal(parts.running_covariance, torch.eye(2).expand(3, 2, 2))


def test_the_method_is_a_name_or_a_value():
    assert Whitening(4, method="newton").method == NewtonWhitening(iterations=5)
    layer = Whitening(4, method=NewtonWhitening(Minimax(8, 1e-3)))
    layer.method = "cholesky"
    assert layer.method == CholeskyWhitening()
    assert Whitening(4).method == ExactWhitening()
    assert all(method().use for method in WHITENING_METHODS.values())


def test_cholesky_of_a_matrix_that_is_not_positive_is_an_error():
    S = torch.stack([torch.eye(3), -torch.eye(3)]).double()
    with pytest.raises(LinAlgError, match=r"covariance\[1\] .*raise eps, .*method=\"exact\""):
        CholeskyWhitening()(S, 1e-5)
    with torch.no_grad():
        got = torch.vmap(lambda S: CholeskyWhitening()(S, 1e-5))(S)
    assert got[0].isfinite().all()
    assert got[1].isnan().all()  # where nobody can look


def test_group_whitening_has_no_state():
    layer, X = GroupWhitening(8, 4), matrices.random(5, 8, 3, 3)
    assert torch.equal(layer.eval()(X), layer.train()(X))
    assert layer.state_dict() == {}
    assert layer(X[:0]).shape == (0, 8, 3, 3)


def test_newton_can_be_exported_with_torchs_own_operators():
    X = matrices.random(4, 6, 5, dtype=torch.float32)
    layer = Whitening(6, groups=2, method="newton")
    layer(X)
    program = torch.export.export(layer.eval(), (X,))
    names = [str(n.target) for n in program.graph.nodes if n.op == "call_function"]
    assert not [name for name in names if "rootpool" in name]
    torch.testing.assert_close(program.module()(X), layer(X))


# ------------------------------------------------------------------------------- running statistics


def test_running_statistics_are_those_of_batch_norm_and_used_in_evaluation():
    layer, norm = Whitening(3, momentum=0.3), nn.BatchNorm2d(3, momentum=0.3)
    for seed in range(5):
        X = matrices.random(4, 3, 5, 5, dtype=torch.float32, seed=seed) * 2 + 1
        layer(X), norm(X)
    assert torch.allclose(layer.running_mean, norm.running_mean, atol=1e-6)
    assert torch.allclose(layer.running_covariance.diagonal(), norm.running_var, rtol=1e-5)
    assert layer.num_batches_tracked == 5
    layer.eval()
    X = matrices.random(1, 3, 1, 1, dtype=torch.float32)  # a single position is enough here
    before = layer.running_covariance.clone()
    root = layer(X)
    assert root.shape == X.shape
    assert torch.equal(layer.running_covariance, before)
    lam, U = torch.linalg.eigh(before.double() + layer.eps * torch.eye(3))
    centred = X[0, :, 0, 0].double() - layer.running_mean.double()
    expected = U @ torch.diag(lam.rsqrt()) @ U.mT @ centred
    assert torch.allclose(root[0, :, 0, 0].double(), expected, rtol=1e-5)


@every_method
def test_rounding_of_running_statistics_is_below_the_ridge(method):
    """They are float32, of a matrix of rank 2: eigenvalues below zero by more than eps."""
    layer = Whitening(6, momentum=1.0, method=method)
    X = 100 * matrices.random(64, 2) @ matrices.random(2, 6, seed=1)
    layer(X.float())
    largest = torch.linalg.eigvalsh(layer.eval()(X.float()).mT.double().cov())[-1]
    assert largest == pytest.approx(1, abs=0.02)


def test_the_average_of_all_batches():
    layer, batches = Whitening(3, momentum=None), matrices.random(4, 8, 3, dtype=torch.float32)
    for batch in batches:
        layer(batch)
    assert torch.allclose(layer.running_mean, batches.flatten(0, 1).mean(0), atol=1e-6)
    layer.reset_running_stats()
    assert torch.equal(layer.running_covariance, torch.eye(3))


def test_a_broken_batch_does_not_spoil_the_running_statistics():
    layer = Whitening(4)
    with pytest.raises(ValueError, match="NaN or infinite"):
        layer(torch.full((8, 4), torch.nan))
    assert layer.num_batches_tracked == 0
    assert layer.eval()(torch.ones(2, 4)).isfinite().all()


def test_a_batch_beyond_the_range_leaves_the_running_statistics():
    layer = Whitening(3)
    layer(torch.randn(8, 3))
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    with pytest.raises(LinAlgError, match=r"the running covariance overflowed .* for features"):
        layer(torch.randn(8, 3) * 1e25)  # 1e50 in float64, but the statistics are float32
    assert all(torch.equal(value, before[name]) for name, value in layer.state_dict().items())


def test_reset_parameters_gives_memory_of_any_content_the_values_of_a_new_layer():
    with torch.device("meta"):
        layer = Whitening(6, groups=2, affine=True)
    layer = layer.to_empty(device="cpu")
    for tensor in layer.state_dict().values():
        tensor.fill_(7)
    layer.reset_parameters()
    fresh = Whitening(6, groups=2, affine=True).state_dict()
    assert all(torch.equal(fresh[name], value) for name, value in layer.state_dict().items())
