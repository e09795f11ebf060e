"""Decompositions of torch inside ``stable()``: its arguments and results, our derivatives, code of others."""

import importlib
import threading
from types import ModuleType

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

import matrices
import oracles
from matrices import gradients, inner, random, random_definite
from rootpool import linalg as la
from rootpool.linalg import stable

D = torch.float64
TIED = torch.diag(matrices.spectrum("repeated"))
TALL = matrices.with_singular_values(5, 3, [2.0, 2.0, 1.0])
SQUARE = (4, 4)

# Calls as others write them, on a matrix without ties: results as torch gives them.
CALLS = {
    "eigh": (lambda A: torch.linalg.eigh(A), SQUARE),
    "eigh, UPLO": (lambda A: torch.linalg.eigh(A, UPLO="U"), SQUARE),
    "eigvalsh": (lambda A: torch.linalg.eigvalsh(A, "U"), SQUARE),
    "svd": (lambda A: torch.linalg.svd(A), (5, 3)),
    "svd, named": (lambda A: torch.linalg.svd(A=A, full_matrices=False), (3, 5)),
    "svdvals": (lambda A: torch.linalg.svdvals(A), (5, 3)),
    "torch.svd": (lambda A: torch.svd(A), (5, 3)),
    "torch.svd, full": (lambda A: torch.svd(input=A, some=False), (5, 3)),
    "torch.svd, values": (lambda A: torch.svd(A, compute_uv=False), (5, 3)),
    "Tensor.svd": (lambda A: A.svd(True), (5, 3)),
    "matrix_norm": (lambda A: torch.linalg.matrix_norm(A, "nuc", keepdim=True), (2, 5, 3)),
    "matrix_norm, dim": (lambda A: torch.linalg.matrix_norm(A, ord="nuc", dim=(2, 0)), (2, 5, 3)),
    "linalg.norm": (lambda A: torch.linalg.norm(A, "nuc", dim=(0, 1), keepdim=True), (2, 5, 3)),
    "torch.norm": (lambda A: torch.norm(A, p="nuc"), (5, 3)),
    "Tensor.norm": (lambda A: A.norm(p="nuc"), (5, 3)),
    "other norms": (lambda A: torch.linalg.matrix_norm(A, "fro"), (5, 3)),
}
if hasattr(torch.linalg, "polar"):
    CALLS["polar"] = (lambda A: torch.linalg.polar(A), (5, 3))
    CALLS["matrix_sqrth"] = (lambda A: torch.linalg.matrix_sqrth(A), SQUARE)


@pytest.mark.parametrize("name", CALLS)
def test_results_have_the_form_of_torch(name):
    call, shape = CALLS[name]
    A = random_definite(*shape) if shape == SQUARE else random(*shape)
    expected = call(A.requires_grad_())
    with stable():
        got = call(A)
    assert type(got) is type(expected)
    pairs = [(got, expected)] if isinstance(got, Tensor) else zip(got, expected, strict=True)
    for a, b in pairs:
        assert a.shape == b.shape
        # Columns may differ by their sign, and those beyond the thin factors are arbitrary.
        thin = (a, b) if a.dim() == 0 else (a[..., :3], b[..., :3])
        assert torch.allclose(*map(torch.abs, thin), atol=1e-12)


def polar_factor(A: Tensor) -> Tensor:
    U, _, Vh = torch.linalg.svd(A, full_matrices=False)
    return U @ Vh


def projector(A: Tensor) -> Tensor:
    U = torch.linalg.eigh(A).eigenvectors[:, 3:]
    return U @ U.mT


def gradient(f, A):
    return gradients(lambda A: inner(random(*f(A).shape, seed=3), f(A)), A)[0]


G = random(5, 3, seed=3)
SURROUNDINGS = {
    "plain": gradient,
    "checkpoint": lambda f, A: gradient(lambda A: checkpoint(f, A, use_reentrant=False), A),
    "vjp": lambda f, A: torch.func.vjp(f, A)[1](G)[0],
    "vmap of grad": lambda f, A: torch.vmap(torch.func.grad(lambda A: inner(G, f(A))))(A[None])[0],
    "compile": lambda f, A: gradient(torch.compile(f, backend="aot_eager", fullgraph=True), A),
}
# Smooth at ties, where torch gives NaN or infinity.
AT_TIES = [
    *((name, polar_factor, la.orthogonalize, TALL) for name in SURROUNDINGS),
    ("plain", polar_factor, la.orthogonalize, torch.eye(3, dtype=D)),
    ("plain", projector, lambda A: la.leading_projector(A, 3), TIED),
]


@pytest.mark.parametrize(("surrounding", "theirs", "ours", "A"), AT_TIES)
def test_gradients_at_ties(surrounding, theirs, ours, A):
    assert not gradient(theirs, A).isfinite().all()
    with stable():
        got = SURROUNDINGS[surrounding](theirs, A)
    assert torch.allclose(got, gradient(ours, A), atol=1e-13)


def test_the_rule_can_be_chosen():
    A = matrices.matrix("separated")
    with stable(rule="pade"):
        got = gradient(lambda A: torch.linalg.eigh(A)[1], A)
    assert torch.equal(got, gradient(lambda A: la.eigh(A, rule="pade")[1], A))


@pytest.mark.parametrize("way", ["inputs", "reentrant", "function"])
def test_backward_through_a_checkpoint_fills_the_gradients(way):
    A, B = (TALL.clone().requires_grad_() for _ in range(2))
    with stable():
        loss = checkpoint(polar_factor, A, use_reentrant=way == "reentrant").sin().sum() + B.sum()
        if way == "function":
            torch.autograd.backward([loss], [torch.tensor(2.0, dtype=D)])
        else:
            loss.backward(**({"inputs": [A, B]} if way == "inputs" else {}))
    expected = torch.func.grad(lambda A: la.orthogonalize(A).sin().sum())(TALL)
    share = 2 if way == "function" else 1
    assert torch.allclose(A.grad, share * expected, atol=1e-13)
    assert torch.equal(B.grad, torch.full_like(B, share))


def test_refusals_and_calls_without_a_derivative_are_those_of_torch():
    A, B = TALL.clone().requires_grad_(), TALL.clone().requires_grad_()
    out = torch.empty(3, dtype=D)
    with stable():
        with pytest.raises(RuntimeError, match="allow_unused"):
            torch.autograd.grad(A.sum(), [A, B])
        with pytest.raises(RuntimeError, match="only for scalar outputs"):
            (2 * A).backward()
        with pytest.raises(RuntimeError, match="does not require grad"):
            TALL.sum().backward()
        with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
            torch.linalg.svdvals(A, out=out)
        found = torch.autograd.grad(A.sum(), [A, B], materialize_grads=True)
        assert torch.equal(found[1], torch.zeros_like(B))
        assert torch.autograd.grad(A.sum(), [A, B], allow_unused=True)[1] is None
        assert torch.equal(torch.linalg.svdvals(TALL, out=out), out)
        assert type(torch.linalg.eigh(TIED.to(torch.float32))) is torch.return_types.linalg_eigh


def test_it_belongs_to_its_thread():
    found = []
    with stable():
        thread = threading.Thread(target=lambda: found.append(gradient(polar_factor, TALL)))
        thread.start()
        thread.join()
    assert not found[0].isfinite().all()


# --------------------------------------------------------------------------------------------------
# Libraries that nobody here wrote; each is skipped where it is not installed

CORNERS = torch.tensor([[[0.0, 0], [1, 0], [1, 1], [0, 1]]], dtype=D)
PLANE = 2 * torch.eye(5, 3, dtype=D)
ESSENTIAL = torch.tensor([[[0.0, -1, 0], [1, 0, 0], [0, 0, 0]]], dtype=D)


def procrustes(module: ModuleType, A: Tensor) -> Tensor:
    with importlib.import_module("tensorly").backend_context("pytorch"):
        return module.procrustes(A)


# Module, a call of it and its input.
LIBRARIES = {
    "kornia.geometry": (
        lambda module, A: module.find_homography_dlt(A, CORNERS, solver="svd"),
        CORNERS,
    ),
    "kornia.geometry.epipolar": (
        lambda module, A: module.decompose_essential_matrix(A)[0],
        ESSENTIAL,
    ),
    "geoopt": (lambda module, A: module.manifolds.Stiefel().projx(A), PLANE),
    "tensorly.tenalg.proximal": (procrustes, PLANE),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LIBRARIES)
def test_other_libraries_against_differences(name):
    module = pytest.importorskip(name, reason=f"{name.split('.')[0]} is not installed")
    call, A = LIBRARIES[name]
    f = lambda A: call(module, A)  # noqa: E731
    V, weight = random(*A.shape, seed=4), random(*f(A).shape, seed=3)
    expected = inner(weight, oracles.central_difference(f, A, V, 1e-5))
    assert not inner(gradient(f, A), V).isfinite()
    with stable():
        assert torch.isclose(inner(gradient(f, A), V), expected, rtol=1e-7)
