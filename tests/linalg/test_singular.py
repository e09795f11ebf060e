"""Functions of singular values in many digits: ties, near ties, zeros and rank deficiency, both orders."""

import mpmath
import pytest
import torch

import matrices
import oracles
from matrices import inner, with_singular_values
from rootpool import linalg as la
from tolerances import allowed

# Name: the function, and the same of a list of singular values.
FUNCTIONS = {
    "root": (lambda A: la.singular_value_function(A, "sqrt"), lambda s: list(map(mpmath.sqrt, s))),
    "cube": (lambda A: la.singular_value_function(A, la.Power(3.0)), lambda s: [x**3 for x in s]),
    "polar factor": (
        lambda A: la.singular_value_function(A, la.Power(0.0)),
        lambda s: [mpmath.mpf(1)] * len(s),
    ),
    "exp": (lambda A: la.singular_value_function(A, "exp"), lambda s: list(map(mpmath.exp, s))),
    "inverse root": (
        lambda A: la.singular_value_function(A, "inv_sqrt"),
        lambda s: [1 / mpmath.sqrt(x) for x in s],
    ),
    "rank 2": (lambda A: la.low_rank(A, 2), lambda s: s[:2] + [0] * (len(s) - 2)),
    "threshold": (
        lambda A: la.singular_value_threshold(A, 0.5),
        lambda s: [max(x - 0.5, 0) for x in s],
    ),
    "clip": (lambda A: la.clip_singular_values(A, 2.0), lambda s: [min(x, 2) for x in s]),
    "clip both": (
        lambda A: la.clip_singular_values(A, 2.0, min=0.5),
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


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_value_and_both_derivatives(name, kind, shape, dtype):
    f, digits = FUNCTIONS[name]
    A = with_singular_values(*shape, SPECTRA[kind], dtype)
    G, V, W = (matrices.random(*shape, dtype=dtype, seed=k) for k in (1, 2, 3))

    def loss(A):
        return oracles.weighted(G, oracles.singular_function(A, digits))

    value = oracles.value(loss, A)
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


def test_rank_below_k_and_roots_at_zero_keep_the_rank():
    """The derivative along changes of the factors of a matrix of rank 2."""
    left, right = matrices.random(5, 2), matrices.random(2, 4, seed=1)
    V, G = matrices.random(5, 2, seed=2), matrices.random(5, 4, seed=3)
    for f in (lambda A: la.low_rank(A, 3), FUNCTIONS["root"][0]):
        of_factor = lambda left, f=f: (f(left @ right) * G).sum()  # noqa: E731
        expected = oracles.central_difference(of_factor, left, V)
        got = (torch.func.grad(of_factor)(left) * V).sum()
        assert torch.isclose(got, expected, rtol=1e-7)
    assert torch.allclose(la.low_rank(left @ right, 3), left @ right, atol=1e-14)


def test_slopes_at_a_bound_are_those_of_clamp():
    A = torch.diag(torch.tensor([2.0, 1.0, 0.5], dtype=torch.float64))
    clipped = lambda A: la.clip_singular_values(A, 2.0, min=0.5)  # noqa: E731
    for f in (clipped, lambda A: la.singular_value_threshold(A, 0.5)):
        (g,) = matrices.gradients(lambda A, f=f: f(A).trace(), A)
        assert torch.allclose(g, torch.eye(3).double())


def test_svd_names_the_functions_that_are_exact_where_it_warns():
    A = with_singular_values(4, 3, [3.0, 1.0, 1.0]).requires_grad_()
    U, s, Vh = la.svd(A)
    low = (U * torch.where(s > 2, s, 0.5 * s.square()).unsqueeze(-2)) @ Vh
    with pytest.warns(UserWarning, match=r"values \(low_rank, singular_value_function\)"):
        (low * matrices.random(4, 3)).sum().backward()
