"""Functions of singular values in many digits: ties, near ties, zeros and rank deficiency, both orders."""

import functools

import mpmath
import pytest
import torch
from torch.linalg import LinAlgError

import matrices
import oracles
from matrices import with_singular_values
from rootpool.linalg import (
    Power,
    clip_singular_values,
    low_rank,
    matrix_function,
    orthogonalize,
    singular_value_function,
    singular_value_threshold,
    svd,
)
from tolerances import allowed

# Name: the function, and the same of a list of singular values.
FUNCTIONS = {
    "root": (
        functools.partial(singular_value_function, function="sqrt"),
        lambda s: [mpmath.sqrt(x) for x in s],
    ),
    "cube": (
        functools.partial(singular_value_function, function=Power(3.0)),
        lambda s: [x**3 for x in s],
    ),
    "exp": (
        functools.partial(singular_value_function, function="exp"),
        lambda s: [mpmath.exp(x) for x in s],
    ),
    "inverse root": (
        functools.partial(singular_value_function, function="inv_sqrt"),
        lambda s: [1 / mpmath.sqrt(x) for x in s],
    ),
    "rank 2": (functools.partial(low_rank, k=2), lambda s: s[:2] + [0] * (len(s) - 2)),
    "threshold": (
        functools.partial(singular_value_threshold, threshold=0.5),
        lambda s: [max(x - 0.5, 0) for x in s],
    ),
    "clip": (
        functools.partial(clip_singular_values, max=2.0),
        lambda s: [min(x, 2) for x in s],
    ),
    "clip both": (
        functools.partial(clip_singular_values, max=2.0, min=0.5),
        lambda s: [min(max(x, 0.5), 2) for x in s],
    ),
}
SPECTRA = {
    "separated": [3.0, 2.2, 1.0],
    "equal": [3.0, 3.0, 1.0],
    "nearly equal": [3.0, 3.0 - 1e-9, 1.0],
    "equal small ones": [3.0, 0.25, 0.25],
    "small": [3.0, 2.5, 1e-6],
    "zero": [3.0, 3.0, 0.0],
}
SHAPES = [(3, 3), (5, 3), (3, 4)]
SMOOTH_AT_ZERO = ("cube", "rank 2", "threshold", "clip")
CASES = [
    (name, kind)
    for name in FUNCTIONS
    for kind in SPECTRA
    if not (kind == "zero" and name not in SMOOTH_AT_ZERO)
    and not (name == "rank 2" and kind == "equal small ones")
]


def inner(A, B):
    return (A.conj() * B).sum().real


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_value_and_both_derivatives(name, kind, shape, dtype):
    f, digits = FUNCTIONS[name]
    A = with_singular_values(*shape, SPECTRA[kind], dtype)
    G, V, W = (matrices.random(*shape, dtype=dtype, seed=k) for k in (1, 2, 3))

    def loss(A):
        return oracles.weighted(G, oracles.singular_function(A, digits))

    with mpmath.workdps(80):
        value = float(loss(oracles.digits(A)))
    slope = oracles.slope(loss, [A], [V])
    F, backward = torch.func.vjp(f, A)
    # What rounding of the singular values may do, the largest of which is 3.
    smallest = min(x for x in SPECTRA[kind] if x > 0)
    gentle = name in SMOOTH_AT_ZERO
    condition = 30.0 if gentle else 30.0 / smallest**2.5

    def close(got, wanted, condition):
        return abs(float(got) - wanted) <= allowed(torch.float64, 5, condition)

    assert close(inner(G, F), value, condition)
    assert close(inner(backward(G)[0], V), slope, condition)
    along = lambda A: torch.func.jvp(f, (A,), (V,))[1]  # noqa: E731
    assert close(inner(G, along(A)), slope, condition)
    if kind == "zero" and shape[0] != shape[1] and name == "cube":
        return  # zeros that are not exact leave a square root of 1e-32 of them in 80 digits
    curvature = oracles.curvature(loss, A, V, W)
    bent = condition * (1 if gentle else 1 / smallest)
    assert close(inner(G, torch.func.jvp(along, (A,), (W,))[1]), curvature, bent)
    B = A.clone().requires_grad_()
    (g,) = torch.autograd.grad(inner(G, f(B)), B, create_graph=True)
    (second,) = torch.autograd.grad(inner(g, V), B)
    assert close(inner(second, W), curvature, bent)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_float32_is_float64_at_the_same_matrix(name):
    f, _ = FUNCTIONS[name]
    A = with_singular_values(5, 3, [3.0, 3.0, 1.0]).float()
    G = matrices.random(5, 3)
    got, wanted = ((f(B), torch.func.vjp(f, B)[1](G.to(B.dtype))[0]) for B in (A, A.double()))
    for a, b in zip(got, wanted, strict=True):
        assert a.dtype == torch.float32
        assert (a.double() - b).norm() <= allowed(torch.float32, 5) * b.norm()


@pytest.mark.parametrize(
    "shape", [(0, 4, 3), (2, 0, 3, 4), (0, 3), (2, 3, 0), (1, 1), (1, 4), (4, 1)]
)
def test_empty_and_single_matrices(shape):
    A = matrices.random(*shape).requires_grad_()
    k = min(A.shape[-2:])
    names = [name for name in FUNCTIONS if not (name == "rank 2" and k < 2)]
    for f in (FUNCTIONS[name][0] for name in names):
        F = f(A)
        assert F.shape == A.shape
        assert torch.autograd.grad(F.sum(), A)[0].shape == A.shape


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_functions_of_degree_one_follow_the_scale(scale):
    A = with_singular_values(5, 3, [3.0, 3.0, 1.0]).float()
    G = matrices.random(5, 3, dtype=torch.float32)
    for f, bound in ((low_rank, 2), (clip_singular_values, 2.0), (singular_value_threshold, 2.0)):
        scaled = bound if f is low_rank else bound * scale
        one, back = torch.func.vjp(lambda A, f=f, bound=bound: f(A, bound), A)
        other, back_of_scaled = torch.func.vjp(lambda A, f=f, k=scaled: f(A, k), A * scale)
        assert torch.allclose(other / scale, one, rtol=1e-5, atol=1e-5)
        assert torch.allclose(back_of_scaled(G)[0], back(G)[0], rtol=1e-4, atol=1e-4)


def test_a_semidefinite_matrix_is_its_own_polar_factor():
    """There functions of singular values and of eigenvalues are the same, value and derivative."""
    A, G = matrices.matrix("repeated"), matrices.random_symmetric(6, 6, seed=4)
    pairs = [
        torch.func.vjp(lambda A, f=f: f(A, "sqrt"), A)
        for f in (singular_value_function, matrix_function)
    ]
    (F, back), (expected, expected_back) = pairs
    assert torch.allclose(F, expected, atol=1e-13)
    assert torch.allclose(matrices.symmetric(back(G)[0]), expected_back(G)[0], atol=1e-13)


def test_exponent_zero_is_the_polar_factor():
    A, G = matrices.random(5, 3), matrices.random(5, 3, seed=1)
    (F, back), (Q, back_of_Q) = (
        torch.func.vjp(f, A)
        for f in (lambda A: singular_value_function(A, Power(0.0)), orthogonalize)
    )
    assert torch.allclose(F, Q, atol=1e-14)
    assert torch.allclose(back(G)[0], back_of_Q(G)[0], atol=1e-13)


def test_rank_below_k_and_roots_at_zero_keep_the_rank():
    """The derivative along changes of the factors of a matrix of rank 2."""
    left, right = matrices.random(5, 2), matrices.random(2, 4, seed=1)
    V, G = matrices.random(5, 2, seed=2), matrices.random(5, 4, seed=3)
    for f in (lambda A: low_rank(A, 3), FUNCTIONS["root"][0]):
        of_factor = lambda left, f=f: (f(left @ right) * G).sum()  # noqa: E731
        expected = oracles.central_difference(of_factor, left, V)
        got = (torch.func.grad(of_factor)(left) * V).sum()
        assert torch.isclose(got, expected, rtol=1e-7)
    assert torch.allclose(low_rank(left @ right, 3), left @ right, atol=1e-14)


TIED = with_singular_values(4, 3, [3.0, 1.0, 1.0])
FULL = with_singular_values(4, 3, [3.0, 2.0, 1.0])
SINGULAR = torch.stack([FULL, with_singular_values(4, 3, [3.0, 1.0, 0.0])])
REFUSALS = {
    r"unknown function 'cos'": (ValueError, lambda: singular_value_function(FULL, "cos")),
    r"expects k of at most 3": (ValueError, lambda: low_rank(FULL, 4)),
    r"threshold must not be negative, got -1": (
        ValueError,
        lambda: singular_value_threshold(FULL, -1),
    ),
    r"expects max to be positive and at least min, got max=1 and min=2": (
        ValueError,
        lambda: clip_singular_values(FULL, 1, min=2),
    ),
    r"low_rank expects \(..., m, n\)": (ValueError, lambda: low_rank(FULL[0], 1)),
    r"A\[1\] is singular .* does not tend to 0": (
        LinAlgError,
        lambda: singular_value_function(SINGULAR, "exp"),
    ),
    r"A\[1\] is singular to working": (
        LinAlgError,
        lambda: singular_value_function(SINGULAR, "log"),
    ),
    r"A\[1\] is singular": (LinAlgError, lambda: clip_singular_values(SINGULAR, 2, min=1)),
    r"both sides of the cut are equal": (
        LinAlgError,
        lambda: bend(lambda A: low_rank(A, 2), TIED, 1),
    ),
    r"no second derivative at the singular matrix A\[1\]": (
        LinAlgError,
        lambda: bend(FUNCTIONS["root"][0], SINGULAR, 2),
    ),
    r"no second derivative at the singular": (
        LinAlgError,
        lambda: bend(lambda A: singular_value_function(A, Power(2.0)), SINGULAR, 2),
    ),
    r"rank is below k = 3": (LinAlgError, lambda: bend(lambda A: low_rank(A, 3), SINGULAR, 2)),
    r"third derivatives of low_rank": (
        RuntimeError,
        lambda: bend(lambda A: low_rank(A, 2), FULL, 3),
    ),
}


def bend(f, A, order):
    A = A.clone().requires_grad_()
    value = f(A).sin().sum()
    for _ in range(order):
        (g,) = torch.autograd.grad(value, A, create_graph=True)
        value = g.sin().sum()


@pytest.mark.parametrize("message", REFUSALS)
def test_refusals(message):
    error, call = REFUSALS[message]
    with pytest.raises(error, match=message):
        call()


def test_svd_names_the_functions_that_are_exact_where_it_warns():
    A = TIED.clone().requires_grad_()
    U, s, Vh = svd(A)
    low = (U * torch.where(s > 2, s, 0.5 * s.square()).unsqueeze(-2)) @ Vh
    with pytest.warns(
        UserWarning, match=r"of singular values \(low_rank, singular_value_function\)"
    ):
        (low * matrices.random(4, 3)).sum().backward()
