"""The top of large problems: values and gradients against full decompositions and exact functions."""

import pytest
import torch
from torch.linalg import LinAlgError

import matrices
from matrices import random, symmetric, with_eigenvalues, with_singular_values
from rootpool.linalg import eigh, leading_projector, low_rank, topk_eigh, topk_svd
from tolerances import allowed

pytest.importorskip("scipy", reason="scipy is not installed")

FIELDS = [torch.float64, torch.complex128]
# The largest eigenvalues; the others are between 0 and 1, half of them equal.
TOPS = {
    "separated": [2.0, 2.5, 3.5, 5.0],
    "ties inside": [2.0, 2.0, 2.0, 5.0],
    "close": [2.0, 2.0 + 1e-9, 2.0 + 2e-9, 5.0],
    "one": [3.0],
    "a small gap": [1.001, 2.0, 2.0, 3.0],
}
SIZES = [6, 150]  # by a full decomposition, and by Lanczos


def spectrum(n, top):
    others = n - len(top)
    return [*torch.linspace(0, 1, others // 2).tolist(), *[0.5] * (others - others // 2), *top]


def inner(A, B):
    return (A.conj() * B).sum().real


@pytest.mark.parametrize("dtype", FIELDS)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kind", TOPS)
def test_eigenpairs_and_the_gradient_of_a_projector(kind, n, dtype):
    top = TOPS[kind]
    k = len(top)
    A = with_eigenvalues(spectrum(n, top), dtype=dtype)
    W = symmetric(random(n, n, dtype=dtype, seed=3))
    B, C = A.clone().requires_grad_(), A.clone().requires_grad_()
    lam, U = topk_eigh(B, k)
    assert (lam.detach() - torch.tensor(top, dtype=torch.float64)).abs().max() < allowed(
        torch.float64, n
    )
    assert (A @ U - U * lam).abs().max() < allowed(torch.float64, n)
    assert (U.mH @ U - torch.eye(k)).abs().max() < allowed(torch.float64, n)
    (got,) = torch.autograd.grad(inner(W, U @ U.mH) + lam.square().sum(), B)
    P = leading_projector(C, k)
    (expected,) = torch.autograd.grad(inner(W, P) + inner(P @ C, P @ C), C)
    assert (got - got.mH).abs().max() < 1e-9 * got.abs().max()
    # Vectors of close eigenvalues are known to the rounding over the gap, here 1e-9.
    condition = 1e9 if kind == "close" else 1 / (min(top) - 1)
    assert (got - symmetric(expected)).norm() < allowed(
        torch.float64, n, condition
    ) * expected.norm()


@pytest.mark.parametrize("dtype", FIELDS)
@pytest.mark.parametrize(("m", "n"), [(7, 5), (5, 7), (60, 90)])
@pytest.mark.parametrize("top", [[5.0, 3.0, 3.0], [4.0]], ids=str)
def test_truncated_decompositions_have_the_neglected_part_in_the_gradient(top, m, n, dtype):
    k = len(top)
    values = [*top, *torch.linspace(1, 0.1, min(m, n) - k).tolist()]
    A = with_singular_values(m, n, values, dtype)
    G = random(m, n, dtype=dtype, seed=4)
    B, C = A.clone().requires_grad_(), A.clone().requires_grad_()
    U, S, Vh = topk_svd(B, k)
    assert (S.detach() - torch.tensor(top, dtype=torch.float64)).abs().max() < allowed(
        torch.float64, m
    )
    assert (U.mH @ U - torch.eye(k)).abs().max() < allowed(torch.float64, m)
    polar, _, polar_h = torch.linalg.svd(low_rank(A, k), full_matrices=False)
    assert ((U @ Vh).detach() - polar[:, :k] @ polar_h[:k]).abs().max() < allowed(torch.float64, m)
    (got,) = torch.autograd.grad(inner(G, U @ (U.mH @ B)), B)
    (expected,) = torch.autograd.grad(inner(G, low_rank(C, k)), C)
    assert (got - expected).norm() < allowed(torch.float64, m + n) * expected.norm()


@pytest.mark.parametrize("n", SIZES)
def test_vectors_of_their_own_have_the_gradient_of_eigh(n):
    A, w = with_eigenvalues(spectrum(n, TOPS["separated"])), random(n, 4, seed=5)
    B, C = A.clone().requires_grad_(), A.clone().requires_grad_()
    U, full = topk_eigh(B, 4).eigenvectors, eigh(C).eigenvectors[:, -4:]
    sign = (U * full).sum(0).sign().detach()
    (got,) = torch.autograd.grad((U * w * sign).sum(), B)
    (expected,) = torch.autograd.grad((full * w).sum(), C)
    assert (got - expected).norm() < 1e-11 * expected.norm()


def test_a_function_passes_gradients_to_what_it_uses():
    """A diagonal plus a matrix of low rank, which is never formed."""
    n = 200
    d, F = torch.linspace(0, 1, n, dtype=torch.float64), 2 * random(n, 3, seed=1)
    leaves = [d.clone().requires_grad_(), F.clone().requires_grad_()]

    def apply(V):
        return leaves[0].unsqueeze(-1) * V + leaves[1] @ (leaves[1].mT @ V)

    W = symmetric(random(n, n, seed=2))
    U = topk_eigh(apply, 3, like=d).eigenvectors
    got = torch.autograd.grad(inner(W, U @ U.mT), leaves)
    P = leading_projector(torch.diag(leaves[0]) + leaves[1] @ leaves[1].mT, 3)
    for a, b in zip(got, torch.autograd.grad(inner(W, P), leaves), strict=True):
        assert (a - b).norm() < 1e-11 * b.norm()
    sparse = torch.diag(d).to_sparse()
    assert torch.allclose(topk_eigh(sparse, 2).eigenvalues, d[-2:])


@pytest.mark.parametrize("n", SIZES)
def test_float32(n):
    A = with_eigenvalues(spectrum(n, TOPS["ties inside"])).float()
    W = symmetric(random(n, n, seed=3)).float()
    results = []
    for B in (A.clone().requires_grad_(), A.double().requires_grad_()):
        U = topk_eigh(B, 4).eigenvectors
        results.append(torch.autograd.grad(inner(W.to(B.dtype), U @ U.mT), B)[0])
    assert results[0].dtype == torch.float32
    assert (results[0].double() - results[1]).norm() < allowed(torch.float32, n) * results[1].norm()


def test_all_and_one():
    A = matrices.random_definite(5, 5)
    assert torch.allclose(topk_eigh(A, 5).eigenvalues, torch.linalg.eigvalsh(A))
    B = torch.tensor([[3.0]], requires_grad=True)
    topk_eigh(B, 1).eigenvalues.sum().backward()
    assert B.grad == 1


CUT = with_eigenvalues(spectrum(150, [2.0, 2.0, 3.0])).requires_grad_()
SMALL_CUT = with_singular_values(4, 4, [3.0, 1.0, 1.0, 0.5]).requires_grad_()


def twice():
    A = with_eigenvalues(spectrum(150, [2.0])).requires_grad_()
    (g,) = torch.autograd.grad(topk_eigh(A, 1).eigenvectors.sin().sum(), A, create_graph=True)
    g.sum().backward()


REFUSALS = {
    r"topk_eigh: the cut at k = 2 is inside a multiplet": (LinAlgError, lambda: topk_eigh(CUT, 2)),
    r"topk_svd: the cut at k = 2 .* singular values": (LinAlgError, lambda: topk_svd(SMALL_CUT, 2)),
    r"at most the rank, but the singular value 2 is zero": (
        LinAlgError,
        lambda: topk_svd(torch.diag(torch.tensor([1.0, 0.0])), 2),
    ),
    r"one matrix of single or double precision, got \(2, 3, 3\)": (
        ValueError,
        lambda: topk_eigh(torch.ones(2, 3, 3), 1),
    ),
    r"topk_svd expects one matrix": (ValueError, lambda: topk_svd(torch.ones(3), 1)),
    r"expects k of at most 3": (ValueError, lambda: topk_eigh(torch.eye(3), 4)),
    r"as like=, expects a tensor": (TypeError, lambda: topk_eigh(lambda V: V, 1)),
    r"like= to be a vector": (ValueError, lambda: topk_eigh(lambda V: V, 1, like=torch.eye(2))),
    r"differentiate twice": (RuntimeError, twice),
}


@pytest.mark.parametrize("message", REFUSALS)
def test_refusals(message):
    error, call = REFUSALS[message]
    with pytest.raises(error, match=message):
        call()
