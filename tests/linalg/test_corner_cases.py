"""Input that is allowed and rare: complex batches of tiny matrices, half precision, exponents of zero."""

import pytest
import torch

from matrices import random, random_definite
from rootpool.linalg import (
    bures_wasserstein,
    eigh,
    eigvalsh,
    expm,
    from_triangle,
    leading_projector,
    powm,
    sqrtm,
    to_triangle,
)
from tolerances import assert_same_to_rounding


def hermitian(*shape):
    A = torch.complex(random(*shape), random(*shape, seed=1))
    return A @ A.mH + torch.eye(shape[-1])


def real(A):
    return torch.view_as_real(A) if A.is_complex() else A


TINY = {
    "sqrtm": sqrtm,
    "expm": lambda A: expm(A / 9),
    "eigh": lambda A: eigh(A).eigenvalues,
    "eigvalsh": eigvalsh,
    "powm(A, tensor)": lambda A: powm(A, torch.tensor(0.3, dtype=torch.float64)),
    "leading_projector": lambda A: leading_projector(A, 1),
    "bures_wasserstein": lambda A: bures_wasserstein(A, 2 * A),
}


@pytest.mark.parametrize(("n", "batch"), [(2, 1024), (3, 2048), (4, 4096)])
@pytest.mark.parametrize("name", TINY)
def test_many_tiny_hermitian_matrices(name, n, batch):
    A, function = hermitian(batch, n, n).requires_grad_(), TINY[name]
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
        got, expected = transform(lambda A: powm(A, p)), transform(lambda A: powm(A, exponent))
        assert_same_to_rounding(got, expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_singular_covariances_in_half_precision(dtype):
    """Rounding made their zero eigenvalues negative; inside autocast every root accepts that."""
    X = random(6, 3)
    P = (X @ X.mT).to(dtype)
    assert torch.linalg.eigvalsh(P.double())[0] < 0
    with torch.autocast("cpu", dtype):
        distance, root = bures_wasserstein(P, P), powm(P, torch.tensor(0.5))
        assert_same_to_rounding(root, sqrtm(P), condition=100)
    assert 0 <= distance <= 1e-6 * P.double().trace()


def test_triangle_of_a_hermitian_matrix():
    H = hermitian(2, 3, 3)
    assert torch.equal(from_triangle(to_triangle(H)), H.triu() + H.triu(1).mH)
    S = random_definite(3, 3)
    assert torch.equal(from_triangle(to_triangle(S)), S)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda A: sqrtm(A, floor=1.0), r"sqrtm\(\) got an unexpected keyword argument"),
        (lambda A: powm(A, 1j), "powm expects a number or a tensor as exponent, got 1j"),
        (lambda A: sqrtm(A.int(), eigenvalue_floor=1.0), "sqrtm expects float32 or float64"),
        (lambda A: bures_wasserstein(A.int(), A), "bures_wasserstein expects float32 or float64"),
    ],
)
def test_errors_name_what_was_called(call, text):
    with pytest.raises(TypeError, match=text):
        call(torch.eye(2))
