"""The root of Newton-Schulz with the gradient of the exact root: two matrices kept, any rank."""

import pytest
import torch

import matrices
from matrices import relative_error
from rootpool.linalg import implicit_root, newton_schulz, sqrtm
from rootpool.nn import ISqrtCov, covariance_pool


def symmetric(A):
    return (A + A.mT) / 2


@pytest.mark.parametrize("iterations", [1, 5, 12])
def test_the_value_is_that_of_the_iteration(iterations):
    P = matrices.random_definite(2, 5, 5)
    expected = newton_schulz(P, iterations).root
    assert torch.equal(implicit_root(P, iterations), expected)
    assert torch.equal(implicit_root(P.clone().requires_grad_(), iterations).detach(), expected)


def test_all_derivatives_at_convergence():
    A = matrices.random_definite(2, 3, 3).requires_grad_()
    function = lambda A: implicit_root(symmetric(A), 25)  # noqa: E731
    assert torch.autograd.gradcheck(function, A, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(function, A)


def test_at_ties_and_under_transformations():
    G = matrices.random_symmetric(3, 3)
    eye = torch.eye(3, dtype=torch.float64, requires_grad=True)
    (g,) = torch.autograd.grad(implicit_root(eye, 20), eye, G)
    assert relative_error(g, G / 2) < 1e-12
    P = matrices.random_definite(4, 3, 3)
    loss = lambda P: (implicit_root(P, 20) * G).sum()  # noqa: E731
    (expected,) = torch.autograd.grad((sqrtm(P.requires_grad_()) * G).sum(), P)
    assert relative_error(torch.vmap(torch.func.grad(loss))(P.detach()), expected) < 1e-9
    torch._dynamo.reset()
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    assert relative_error(torch.autograd.grad(compiled(P), P)[0], expected) < 1e-9


@pytest.mark.parametrize("shape", [(3, 4, 30), (3, 4, 5), (3, 6, 3), (3, 5, 2)])
def test_covariances_of_every_rank(shape):
    """With fewer positions than channels, too, where half of the equation's solution is missing."""
    X, G = matrices.random(*shape).requires_grad_(), matrices.random(3, shape[1], shape[1], seed=1)
    pool = lambda method: covariance_pool(X, method, output="matrix")  # noqa: E731
    (exact,) = torch.autograd.grad(pool("exact"), X, G)
    (got,) = torch.autograd.grad(pool(ISqrtCov(16, "lyapunov")), X, G)
    assert relative_error(got, exact) < 1e-5
    with torch.no_grad():
        assert relative_error(pool(ISqrtCov(16, "lyapunov")), pool("exact")) < 1e-5


@pytest.mark.parametrize("N", [1, 3, 9])
@pytest.mark.parametrize("scale", [0.0, 1e-10, 1.0, 1e10])
@pytest.mark.parametrize("dtype", matrices.DTYPES)
def test_extremes_are_finite_and_scales_do_not_matter(N, scale, dtype):
    X = (matrices.random(2, 5, N) * scale).to(dtype).requires_grad_()
    Q = covariance_pool(X, ISqrtCov(15, "lyapunov"))
    (g,) = torch.autograd.grad(Q.sum(), X)
    assert Q.isfinite().all()
    assert g.isfinite().all()
    if scale and N == 9:
        Y = matrices.random(2, 5, N).requires_grad_()
        (expected,) = torch.autograd.grad(covariance_pool(Y, ISqrtCov(15, "lyapunov")).sum(), Y)
        assert relative_error(g.double(), expected) < 1e-4


def test_a_map_does_not_depend_on_its_company():
    P = matrices.random_definite(3, 4, 4)
    P[1] *= 1e12
    G = matrices.random_symmetric(3, 4, 4, seed=1)
    grad = lambda P, G: torch.autograd.grad(implicit_root(P.requires_grad_()), P, G)[0]  # noqa: E731
    together = grad(P.clone(), G)
    for k in range(3):
        assert relative_error(together[k : k + 1], grad(P[k : k + 1].clone(), G[k : k + 1])) < 1e-12


@pytest.mark.parametrize("iterations", [5, 20])
def test_only_the_root_is_kept_for_the_backward(iterations):
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: kept.append(t.numel()) or t, lambda t: t
    ):
        implicit_root(matrices.random_definite(2, 6, 6).requires_grad_(), iterations)
    assert kept == [2 * 6 * 6]


def test_empty_batches_and_bad_options():
    empty = torch.zeros(0, 3, 3, requires_grad=True)
    implicit_root(empty).sum().backward()
    assert empty.grad.shape == (0, 3, 3)
    with pytest.raises(
        ValueError, match=r"ISqrtCov\.backward must be one of iteration, lyapunov, got 'l'"
    ):
        ISqrtCov(backward="l")
    with pytest.raises(ValueError, match="iterations must be an integer >= 1, got 0"):
        implicit_root(torch.eye(2), 0)
