"""The top of large problems: values and gradients against full decompositions and exact functions."""

import pytest
import torch
from torch.linalg import LinAlgError

import matrices
from matrices import gradients, inner, random, symmetric, with_eigenvalues
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


@pytest.mark.parametrize("dtype", [*FIELDS, torch.float32])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kind", TOPS)
def test_eigenpairs_and_the_gradient_of_a_projector(kind, n, dtype):
    top, limit = TOPS[kind], allowed(dtype.to_real(), n)
    k = len(top)
    A = with_eigenvalues(spectrum(n, top), dtype=FIELDS[dtype.is_complex]).to(dtype)
    W = symmetric(random(n, n, dtype=dtype, seed=3))
    B, C = A.clone().requires_grad_(), A.to(FIELDS[dtype.is_complex]).requires_grad_()
    lam, U = topk_eigh(B, k)
    assert (lam.detach() - torch.tensor(top, dtype=torch.float64)).abs().max() < limit
    assert (A @ U - U * lam).abs().max() < limit
    assert (U.mH @ U - torch.eye(k)).abs().max() < limit
    (got,) = torch.autograd.grad(inner(W, U @ U.mH) + lam.square().sum(), B)
    P = leading_projector(C, k)
    (expected,) = torch.autograd.grad(inner(W.to(C.dtype), P) + inner(P @ C, P @ C), C)
    assert got.dtype == dtype
    assert (got - got.mH).abs().max() < limit * got.abs().max()
    # Vectors of close eigenvalues are known to the rounding over the gap, here 1e-9.
    condition = 1e9 if kind == "close" else 1 / (min(top) - 1)
    assert (got - symmetric(expected)).norm() < limit * condition * expected.norm()


@pytest.mark.parametrize("dtype", FIELDS)
@pytest.mark.parametrize(("m", "n"), [(7, 5), (5, 7), (60, 90)])
@pytest.mark.parametrize("top", [[5.0, 3.0, 3.0], [4.0]], ids=str)
def test_truncated_decompositions_have_the_neglected_part_in_the_gradient(top, m, n, dtype):
    k = len(top)
    values = [*top, *torch.linspace(1, 0.1, min(m, n) - k).tolist()]
    A = matrices.with_singular_values(m, n, values, dtype)
    G = random(m, n, dtype=dtype, seed=4)
    B = A.clone().requires_grad_()
    U, S, Vh = topk_svd(B, k)
    limit = allowed(torch.float64, m + n)
    assert (S.detach() - torch.tensor(top, dtype=torch.float64)).abs().max() < limit
    assert (U.mH @ U - torch.eye(k)).abs().max() < limit
    polar, _, polar_h = torch.linalg.svd(low_rank(A, k), full_matrices=False)
    assert ((U @ Vh).detach() - polar[:, :k] @ polar_h[:k]).abs().max() < limit
    (got,) = torch.autograd.grad(inner(G, U @ (U.mH @ B)), B)
    (expected,) = gradients(lambda A: inner(G, low_rank(A, k)), A)
    assert (got - expected).norm() < limit * expected.norm()


@pytest.mark.parametrize(("dtype", "scale"), [(torch.float32, 1e-18), (torch.float64, 1e-150)])
def test_small_matrices_keep_their_digits(dtype, scale):
    """ARPACK, left alone, takes what is below eps^(2/3) for zeros."""
    A = matrices.with_singular_values(60, 90, [5.0, 3.0, 3.0, *[1.0] * 20])
    G = random(60, 90, seed=4)

    def part(A):
        U = topk_svd(A, 3).U
        return U @ (U.mT @ A)

    small, limit = (scale * A).to(dtype), allowed(dtype, 150)
    assert (part(small).double() / scale - low_rank(A, 3)).norm() < limit * A.norm()
    (got,) = gradients(lambda A: inner(G.to(dtype), part(A)), small)
    (expected,) = gradients(lambda A: inner(G, low_rank(A, 3)), A)
    assert (got - expected).norm() < limit * expected.norm()


@pytest.mark.parametrize("n", SIZES)
def test_vectors_of_their_own_have_the_gradient_of_eigh(n):
    A, w = with_eigenvalues(spectrum(n, TOPS["separated"])), random(n, 4, seed=5)
    reference = torch.linalg.eigh(A).eigenvectors[:, -4:]
    loss = lambda U: (U * (U * reference).sum(0).sign() * w).sum()  # noqa: E731
    (got,) = gradients(lambda A: loss(topk_eigh(A, 4).eigenvectors), A)
    (expected,) = gradients(lambda A: loss(eigh(A).eigenvectors[:, -4:]), A)
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
    with torch.device("meta"):  # a default that is not the device of the matrix
        assert torch.allclose(topk_eigh(sparse, 2).eigenvalues, d[-2:])


def test_all_and_one():
    A = matrices.random_definite(5, 5)
    assert torch.allclose(topk_eigh(A, 5).eigenvalues, torch.linalg.eigvalsh(A))
    B = torch.tensor([[3.0]], requires_grad=True)
    topk_eigh(B, 1).eigenvalues.sum().backward()
    assert B.grad == 1


def test_a_cut_inside_a_multiplet_and_second_derivatives_are_refused():
    A = with_eigenvalues(spectrum(150, [2.0, 2.0, 3.0])).requires_grad_()
    with pytest.raises(LinAlgError, match="topk_eigh: the cut at k = 2 is inside a multiplet"):
        topk_eigh(A, 2)
    factor = torch.ones((), dtype=torch.float64, requires_grad=True)
    # Of eigenvalues alone, and by what the matrix is made of: their gradient depends on vectors, too.
    B = A.detach() + factor**2 * random(150, 150)
    (g,) = torch.autograd.grad(topk_eigh(B, 1).eigenvalues.sum(), factor, create_graph=True)
    with pytest.raises(RuntimeError, match="topk_eigh has no second derivative"):
        g.backward()
