"""Decompositions of torch inside ``stable()``: its arguments and results, our derivatives, code of others."""

import threading

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

import matrices
from rootpool import linalg as la
from rootpool.linalg import stable

D = torch.float64
TIED = torch.diag(matrices.spectrum("repeated"))
TALL = matrices.with_singular_values(5, 3, [2.0, 2.0, 1.0])

# Calls as others write them, on a matrix without ties: results as torch gives them.
CALLS = {
    "eigh": (lambda A: torch.linalg.eigh(A), 4),
    "eigh, UPLO": (lambda A: torch.linalg.eigh(A, UPLO="U"), 4),
    "eigvalsh": (lambda A: torch.linalg.eigvalsh(A, "U"), 4),
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
    CALLS["matrix_sqrth"] = (lambda A: torch.linalg.matrix_sqrth(A), 4)


@pytest.mark.parametrize("name", CALLS)
def test_results_have_the_form_of_torch(name):
    call, shape = CALLS[name]
    A = (
        matrices.random_definite(shape, shape)
        if isinstance(shape, int)
        else matrices.random(*shape)
    )
    A.requires_grad_()
    expected = call(A)
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


# Smooth at ties, where torch gives NaN or infinity.
AT_TIES = {
    "polar factor": (polar_factor, la.orthogonalize, TALL),
    "square polar factor": (polar_factor, la.orthogonalize, torch.eye(3, dtype=D)),
    "projector": (
        lambda A: (lambda U: U @ U.mT)(torch.linalg.eigh(A).eigenvectors[:, 3:]),
        lambda A: la.leading_projector(A, 3),
        TIED,
    ),
}


def gradient(f, A):
    A = A.clone().requires_grad_()
    G = matrices.random(*f(A).shape, seed=3)
    return torch.autograd.grad((f(A) * G).sum(), A)[0]


@pytest.mark.parametrize("name", AT_TIES)
def test_gradients_at_ties(name):
    theirs, ours, A = AT_TIES[name]
    assert not gradient(theirs, A).isfinite().all()
    with stable():
        got = gradient(theirs, A)
    assert torch.allclose(got, gradient(ours, A), atol=1e-13)


def test_the_rule_can_be_chosen():
    A = matrices.matrix("separated")
    with stable(rule="pade"):
        got = gradient(lambda A: torch.linalg.eigh(A)[1], A)
    assert torch.equal(got, gradient(lambda A: la.eigh(A, rule="pade")[1], A))


G = matrices.random(5, 3, seed=3)
SURROUNDINGS = {
    "checkpoint": lambda f, A: gradient(lambda A: checkpoint(f, A, use_reentrant=False), A),
    "vjp": lambda f, A: torch.func.vjp(f, A)[1](G)[0],
    "vmap of grad": lambda f, A: torch.vmap(torch.func.grad(lambda A: (f(A) * G).sum()))(A[None])[
        0
    ],
    "compile": lambda f, A: gradient(torch.compile(f, backend="aot_eager", fullgraph=True), A),
}


@pytest.mark.parametrize("name", SURROUNDINGS)
def test_inside(name):
    with stable():
        got = SURROUNDINGS[name](polar_factor, TALL)
    assert torch.allclose(got, gradient(la.orthogonalize, TALL), atol=1e-13)


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


def test_what_torch_refuses_is_refused():
    A, B = TALL.clone().requires_grad_(), TALL.clone().requires_grad_()
    with stable():
        with pytest.raises(RuntimeError, match="allow_unused"):
            torch.autograd.grad(A.sum(), [A, B])
        with pytest.raises(RuntimeError, match="only for scalar outputs"):
            (2 * A).backward()
        with pytest.raises(RuntimeError, match="does not require grad"):
            TALL.sum().backward()
        with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
            torch.linalg.svdvals(A, out=torch.empty(3, dtype=D))
        found = torch.autograd.grad(A.sum(), [A, B], materialize_grads=True)
        assert torch.equal(found[1], torch.zeros_like(B))
        assert torch.autograd.grad(A.sum(), [A, B], allow_unused=True)[1] is None


def test_without_a_gradient_and_with_out_it_is_torch_itself():
    out = torch.empty(3, dtype=D)
    with stable():
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

SQUARE = torch.tensor([[[0.0, 0], [1, 0], [1, 1], [0, 1]]], dtype=D)
PLANE = 2 * torch.eye(5, 3, dtype=D)


def kornia_homography():
    geometry = pytest.importorskip("kornia.geometry", reason="kornia is not installed")
    return lambda A: geometry.find_homography_dlt(A, SQUARE, solver="svd"), SQUARE


def kornia_essential_matrix():
    epipolar = pytest.importorskip("kornia.geometry.epipolar", reason="kornia is not installed")
    E = torch.tensor([[[0.0, -1, 0], [1, 0, 0], [0, 0, 0]]], dtype=D)
    return lambda A: epipolar.decompose_essential_matrix(A)[0], E


def geoopt_stiefel():
    geoopt = pytest.importorskip("geoopt", reason="geoopt is not installed")
    return geoopt.manifolds.Stiefel().projx, PLANE


def tensorly_procrustes():
    tensorly = pytest.importorskip("tensorly", reason="tensorly is not installed")
    proximal = pytest.importorskip("tensorly.tenalg.proximal", reason="tensorly is not installed")

    def call(A):
        with tensorly.backend_context("pytorch"):
            return proximal.procrustes(A)

    return call, PLANE


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "library", [kornia_homography, kornia_essential_matrix, geoopt_stiefel, tensorly_procrustes]
)
def test_other_libraries_against_differences(library):
    f, A = library()
    V, weight = matrices.random(*A.shape, seed=4), matrices.random(*f(A).shape, seed=5)

    def slope():
        B = A.clone().requires_grad_()
        (g,) = torch.autograd.grad((f(B) * weight).sum(), B)
        return (g * V).sum()

    expected = ((f(A + 1e-5 * V) - f(A - 1e-5 * V)) * weight).sum() / 2e-5
    assert not slope().isfinite()
    with stable():
        assert torch.isclose(slope(), expected, rtol=1e-7)
