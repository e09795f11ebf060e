"""What a GPU would be asked to do, counted on fake tensors; and what CUDA graphs may capture."""

from functools import partial
from unittest import mock

import pytest
import torch

import rootpool.linalg as la
from fake_cuda import _backward, counted
from matrices import random
from rootpool.linalg import _private, decompose
from rootpool.nn import METHODS, SpectralRoot, covariance_pool, method_names
from tolerances import assert_same_to_rounding
from transformations import FUNCTIONS

pytestmark = pytest.mark.cpu
FEW, MANY = (4, 40, 9), (4, 16, 49)  # fewer positions than channels, and more
# Torch itself decides how many kernels an operator is. And an older one aborts here: its autograd asks the
# driver, which is not there, for the stream of a fake tensor.
pinned = pytest.mark.skipif(
    not torch.__version__.startswith("2.15."), reason="counts are those of torch 2.15"
)

# Launches and waits of forward and backward that a method may take; the solver's own wait
# included. Any other method may take the first line. The counts themselves are in docs/guides/gpu.md.
BUDGETS = {
    "default": (170, 450, 5, 2),
    "exact": (84, 36, 2, 1),
    "isqrt-cov": (60, 84, 2, 1),
    "newton-fused": (110, 124, 2, 1),
    "svd-pade": (90, 78, 2, 1),
    "minimax": (110, 154, 3, 1),
    "polar": (100, 240, 1, 1),
    "isice": (170, 274, 12, 1),  # a determinant and four decompositions
}
# Of functions, by their rows in the table of transformations, and how often they decompose.
FUNCTION_BUDGETS = {
    "default": (48, 48, 5, 2, 1),
    "sqrtm": (34, 14, 3, 1, 1),
    "inv_sqrtm": (34, 16, 3, 1, 1),
    "logm": (34, 28, 3, 1, 1),
    "newton_schulz": (48, 72, 0, 0, 0),
    "newton_schulz(Minimax())": (76, 110, 0, 0, 0),
    "eigvalsh": (8, 4, 2, 0, 1),
    "svdvals": (14, 5, 2, 0, 1),
    "eigh: eigenvalues": (8, 5, 5, 1, 1),
    "eigh: projector": (10, 38, 5, 6, 1),
    "eigh(A, B=B): projector": (80, 70, 15, 7, 3),
    "svd: singular values": (11, 5, 7, 0, 1),
    "svd: polar factor": (13, 64, 7, 6, 1),
    "singular_value_function": (36, 56, 4, 2, 1),
    "low_rank": (44, 90, 4, 3, 1),
    "singular_value_threshold": (36, 78, 4, 2, 1),
    "clip_singular_values": (36, 74, 4, 2, 1),
    "null_vectors": (20, 52, 2, 2, 1),
    "principal_subspace": (20, 70, 2, 3, 1),
    "principal_subspace, N < d": (20, 70, 2, 3, 1),
    "bures_wasserstein": (118, 32, 9, 2, 3),
    "affine_invariant_distance": (84, 54, 15, 2, 4),
    "frechet_distance": (68, 26, 5, 0, 3),
    "frechet_distance, N < d": (62, 26, 3, 0, 1),
    "canonical_correlations": (104, 78, 8, 2, 3),
    "canonical_correlations, N < d": (120, 110, 13, 3, 4),
    "covariance": (8, 10, 1, 0, 0),
    "covariance_pool: features, weighted": (106, 40, 4, 1, 1),
    "covariance_pool: weights": (110, 70, 5, 1, 1),
}
assert set(FUNCTION_BUDGETS) - {"default"} <= set(FUNCTIONS)
assert set(BUDGETS) - {"default"} <= set(METHODS)


def step_of(name):
    return lambda X: [covariance_pool(X, name)]


def check_counts(forward, backward, gradient, dtype, budget):
    assert (gradient.device.type, gradient.dtype) == ("cuda", dtype)
    assert not forward.on_cpu + backward.on_cpu
    assert not backward.solvers
    found = (forward.launches, backward.launches, forward.waits, backward.waits)
    found += (sum(forward.solvers.values()),)
    assert all(count <= most for count, most in zip(found, budget, strict=False)), (found, budget)


@pinned
@pytest.mark.parametrize("shape", [FEW, MANY])
@pytest.mark.parametrize("name", method_names())
def test_methods_stay_on_the_device_and_within_their_budget(name, shape):
    budget = BUDGETS.get(name, BUDGETS["default"])
    check_counts(*counted(step_of(name), *shape), torch.float32, budget)


# topk_eigh and topk_svd iterate on values, by scipy.
COUNTED = [n for n in FUNCTIONS if "covariance_pool('" not in n and not n.startswith("topk")]


@pinned
@pytest.mark.parametrize("name", COUNTED)
def test_functions_stay_on_the_device_and_within_their_budget(name):
    row, dtype = FUNCTIONS[name], torch.float64
    counts = counted(lambda A: [row.call(A)], *row.sample(dtype).shape, dtype=dtype)
    check_counts(*counts, dtype, FUNCTION_BUDGETS.get(name, FUNCTION_BUDGETS["default"]))


ROOTS = [name for name, method in METHODS.items() if issubclass(method, SpectralRoot)]


@pinned
@pytest.mark.parametrize("name", [*ROOTS, "isqrt-cov", "polar"])
def test_without_checks_nobody_waits_but_the_solver(name):
    checked = counted(step_of(name), *FEW)[:2]
    assert sum(c.waits for c in checked) > sum(sum(c.solvers.values()) for c in checked)
    with la.skip_checks():
        forward, backward, _ = counted(step_of(name), *FEW)
    assert forward.waits == sum(forward.solvers.values())
    assert backward.waits == 0


@pinned
@pytest.mark.parametrize("name", ["exact", "polar", "isqrt-cov", "svd-pade", "power"])
def test_launches_do_not_depend_on_channels(name):
    counts = [
        [c.launches for c in counted(lambda X: [covariance_pool(X, name)], 2, d, 9)[:2]]
        for d in (32, 1500)
    ]
    assert counts[0] == counts[1]


@pytest.mark.parametrize("name", ["exact", "polar", "isqrt-cov", "svd-pade", "power"])
def test_the_walk_through_the_graph_is_autograd(name):
    X = random(*FEW).requires_grad_()
    Q = covariance_pool(X, name)
    g = random(*Q.shape, seed=1)
    (expected,) = torch.autograd.grad(Q, X, g, retain_graph=True)
    assert_same_to_rounding(_backward([Q], [g])[X], expected)


# --------------------------------------------------------------------------------------------------
# Other ways to the same numbers


def matrices():
    A = random(3, 6, 6) @ random(3, 6, 6).mT
    good = A + A.mT + 40 * torch.eye(6, dtype=A.dtype)
    singular, negative, skew, broken = (good.clone() for _ in range(4))
    singular[1] = torch.ones(6, 6, dtype=A.dtype)
    negative[1] -= 200 * torch.eye(6, dtype=A.dtype)
    skew[1, 0, 1] += 1
    broken[1, 0, 0] = torch.nan
    names = ("good", "singular", "negative", "skew", "broken")
    return dict(zip(names, (good, singular, negative, skew, broken), strict=True))


REFUSED = {
    "any": {"skew", "broken"},
    "nonnegative": {"negative", "skew", "broken"},
    "positive": {"singular", "negative", "skew", "broken"},
}


@pytest.mark.parametrize("kind", matrices())
@pytest.mark.parametrize("domain", REFUSED)
def test_one_look_sees_what_many_looks_see(domain, kind):
    A, eps = matrices()[kind], torch.finfo(torch.float64).eps
    found = decompose._eigh_by_one_look(A, domain, eps)
    assert (found is None) == (kind in REFUSED[domain])
    if found is None:
        with pytest.raises((ValueError, torch.linalg.LinAlgError), match=r"A\[1\]"):
            decompose._eigh(A, domain, "sqrtm", "", eps)
    else:
        for ours, expected in zip(found, decompose._eigh(A, domain, "sqrtm", "", eps), strict=True):
            assert_same_to_rounding(ours, expected, n=6)


@pytest.mark.parametrize(
    ("version", "device", "n", "expected"),
    [
        ("2.11.0+cu128", "cuda", 48, True),
        ("2.11.0+cu128", "cuda", 32, False),
        ("2.12.0+cu128", "cuda", 48, False),
        ("2.11.0", "cpu", 48, False),
    ],
)
def test_older_torch_decomposes_on_the_cpu(version, device, n, expected, monkeypatch):
    monkeypatch.setattr(torch, "__version__", version)
    monkeypatch.setattr(torch.version, "hip", None)
    assert _private.cuda_solves_in_turn(torch.device(device), n) == expected


@pinned
@pytest.mark.parametrize("chosen", [None, "cpu", "cuda"])
@pytest.mark.parametrize("in_turn", [False, True])
def test_the_device_of_the_solver(chosen, in_turn):
    pool = partial(covariance_pool, solver_device=chosen)
    with mock.patch("rootpool.nn.fused.cuda_solves_in_turn", return_value=in_turn):
        forward, backward, gradient = counted(lambda X: [pool(X)], *FEW)
    moved = chosen == "cpu" or (chosen is None and in_turn)
    assert ("_linalg_eigh" in forward.on_cpu) == moved
    assert not backward.on_cpu
    assert gradient.device.type == "cuda"


# --------------------------------------------------------------------------------------------------
# CUDA graphs


def graphs(function, *inputs):
    """The graphs of forward and backward that the compiler would hand to CUDA graphs."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.aot_autograd import make_boxed_func

    found = []

    def keep(graph, _):
        found.append(graph)
        return make_boxed_func(graph.forward)

    torch._dynamo.reset()
    compiled = torch.compile(
        function, backend=aot_autograd(fw_compiler=keep, bw_compiler=keep), fullgraph=True
    )
    compiled(*(x.requires_grad_() for x in inputs)).sum().backward()
    return found


PRODUCTS_ALONE = {"polar", "isqrt-cov", "minimax", "covariance", "signed-sqrt"}


@pytest.mark.parametrize(
    "name", ["exact", "svd-pade", "newton-fused", "power", *sorted(PRODUCTS_ALONE)]
)
def test_the_compiler_leaves_solvers_out_of_cuda_graphs(name):
    utils = pytest.importorskip("torch._inductor.utils")
    unsafe = getattr(utils, "is_cudagraph_unsafe_fx_node", None)
    if unsafe is None:
        pytest.skip("this torch does not say which operators CUDA graphs can capture")
    nodes = [
        node
        for graph in graphs(lambda X: covariance_pool(X, name), random(2, 8, 5).float())
        for node in graph.graph.nodes
        if node.op == "call_function"
    ]
    ours = [node for node in nodes if "rootpool" in str(node.target)]
    assert bool(ours) == (name not in PRODUCTS_ALONE)
    assert [node for node in nodes if unsafe(node)] == ours
