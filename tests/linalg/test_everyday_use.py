"""What users of torch.linalg do to their tensors: each of these was wrong, or an error, once."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import matrices
from matrices import random
from rootpool import linalg as la
from tolerances import assert_same_to_rounding
from transformations import FUNCTIONS


def test_results_and_inputs_may_be_changed_in_place():
    A = matrices.random_definite(2, 3, 3).requires_grad_()
    B = A * 1
    F = la.sqrtm(B)
    F += 1
    B.relu_()
    F.sum().backward()
    assert torch.allclose(A.grad, torch.autograd.grad(la.sqrtm(A).sum(), A)[0])


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("function", [lambda A: la.sqrtm(A), lambda A: la.eigh(A).eigenvalues])
def test_traced_with_threads(function, threads):
    threads(2)
    A = matrices.random_definite(64, 40, 40)
    for traced in (make_fx(function)(A), torch.jit.trace(function, A, check_trace=False)):
        assert torch.allclose(traced(A), function(A), rtol=1e-10)


def test_meta_tensors_have_shapes():
    A = torch.empty(2, 3, 3, device="meta")
    assert la.sqrtm(A).shape == la.eigh(A).eigenvectors.shape == la.svd(A).U.shape == A.shape


def test_a_cotangent_without_batch_under_vmap(threads):
    threads(2)
    A, G = matrices.random_definite(3, 8, 40, 40), matrices.random_symmetric(8, 40, 40)
    got = torch.vmap(lambda A: torch.func.vjp(la.sqrtm, A)[1](G)[0])(A)
    expected = torch.stack([torch.func.vjp(la.sqrtm, a)[1](G)[0] for a in A])
    assert torch.allclose(got, expected, rtol=1e-10)


@pytest.mark.parametrize("function", [la.sqrtm, la.eigvalsh, la.svdvals], ids=lambda f: f.__name__)
def test_vmap_over_any_dimension_and_twice(function):
    A = matrices.random_definite(2, 3, 4, 4)
    expected = function(A)
    for got in (
        torch.vmap(function, in_dims=1, out_dims=1)(A),
        torch.vmap(torch.vmap(function))(A),
        torch.vmap(function, in_dims=2)(A.movedim(0, -2)),
    ):
        assert torch.allclose(got, expected, rtol=1e-12)


def test_a_product_rounded_by_autocast_is_judged_by_its_own_digits():
    """Its eigenvalues are below zero by the rounding of bfloat16, and count as zeros."""
    X = matrices.random(16, 8, dtype=torch.float32)
    with torch.autocast(X.device.type, torch.bfloat16):
        P = X @ X.mT / 8
        F = la.sqrtm(P)
    assert F.dtype == torch.float32
    assert matrices.relative_error(F @ F, P) < 0.02


def test_polynomials_have_second_derivatives_at_singular_matrices():
    A = matrices.matrix("rank-deficient").requires_grad_()
    V = matrices.random_symmetric(6, 6)
    (g,) = torch.autograd.grad((la.powm(A, 2) * V).sum(), A, create_graph=True)
    (second,) = torch.autograd.grad((g * V).sum(), A)
    assert torch.allclose(second, 2 * V @ V)


@pytest.mark.parametrize("function", [la.sqrtm, la.eigvalsh, la.svdvals], ids=lambda f: f.__name__)
def test_the_double_backward_trick_asks_for_a_first_derivative_alone(function):
    """At a singular matrix with ties, which has no second one."""
    A = matrices.matrix("rank-deficient")
    trick = torch.autograd.functional.jvp(lambda A: function(A).sum(), A, A)[1]
    assert torch.allclose(trick, torch.func.jvp(lambda A: function(A).sum(), (A,), (A,))[1])


def test_a_tensor_as_exponent():
    A = matrices.matrix("rank-deficient")
    p = torch.tensor([0.7, 1.3], dtype=torch.float64, device=A.device, requires_grad=True)
    assert torch.autograd.gradcheck(lambda p: la.powm(A, p), p, check_forward_ad=True)
    assert torch.allclose(la.powm(A, p)[1], la.powm(A, 1.3))


# ----------------------------------------------------------------------- allowed, and rare


def hermitian(*shape):
    A = torch.complex(random(*shape), random(*shape, seed=1))
    return A @ A.mH + torch.eye(shape[-1])


def real(A):
    return torch.view_as_real(A) if A.is_complex() else A


# One of each machine at the first size, and one of all at the others.
@pytest.mark.parametrize(
    ("name", "n", "batch"),
    [
        *((name, 2, 1024) for name in ("sqrtm", "powm(A, tensor)", "eigh: eigenvalues")),
        *(("sqrtm", *size) for size in ((3, 2048), (4, 4096))),
    ],
)
def test_many_tiny_hermitian_matrices(name, n, batch):
    A, function = hermitian(batch, n, n).requires_grad_(), FUNCTIONS[name].call
    result = function(A)
    (g,) = torch.autograd.grad(real(result).sin().sum(), A)
    for item in (0, batch - 1):
        a = A[item].detach().requires_grad_()
        alone = function(a)
        assert_same_to_rounding(result[item], alone, n=n, condition=10)
        (g_alone,) = torch.autograd.grad(real(alone).sin().sum(), a)
        assert_same_to_rounding(g[item], g_alone, n=n, condition=100)


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.5])
def test_tensor_as_exponent_at_a_singular_matrix(exponent):
    """As with a number, in both modes."""
    A = torch.diag(torch.tensor([0.0, 0.0, 1.0, 2.0], dtype=torch.float64))
    p, V = torch.tensor(exponent, dtype=torch.float64), random(4, 4)
    V = V + V.mT
    for transform in (
        lambda f: torch.func.grad(lambda A: (f(A) * V).sum())(A),
        lambda f: torch.func.jvp(f, (A,), (V,))[1],
    ):
        got, expected = (
            transform(lambda A: la.powm(A, p)),
            transform(lambda A: la.powm(A, exponent)),
        )
        assert_same_to_rounding(got, expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_singular_covariances_in_half_precision(dtype):
    """Rounding made their zero eigenvalues negative; inside autocast every root accepts that."""
    X = random(6, 3)
    P = (X @ X.mT).to(dtype)
    assert torch.linalg.eigvalsh(P.double())[0] < 0
    with torch.autocast("cpu", dtype):
        distance, root = la.bures_wasserstein(P, P), la.powm(P, torch.tensor(0.5))
        assert_same_to_rounding(root, la.sqrtm(P), condition=100)
    assert 0 <= distance <= 1e-6 * P.double().trace()


def test_triangle_of_a_hermitian_matrix():
    H = hermitian(2, 3, 3)
    assert torch.equal(la.from_triangle(la.to_triangle(H)), H.triu() + H.triu(1).mH)
