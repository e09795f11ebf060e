"""Second derivatives: against fifty digits at every distance of eigenvalues, and at every scale."""

import itertools

import mpmath
import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from matrices import random, random_symmetric
from oracles import central_difference
from rootpool.linalg import canonical_correlations, frechet_distance
from rootpool.linalg.restricted import Floored, Leading
from rootpool.linalg.scalar import Exp, InvSqrt, Log, Power, Sqrt
from tolerances import allowed

DISTANCES = [0.0, 1e-16, 1e-12, 1e-8, 1e-4, 1e-2, 0.049, 0.0999, 0.1001, 0.3, 0.4999, 0.5001, 2.0]
DISTANCES += [1e4]
POWERS = [0.3, -0.25, -1.0, -3.7, -20.0, 2.0, 7.0, 40.0, 1e-12]
FUNCTIONS = {f"power {p:g}": (Power(p), lambda x, p=p: x ** mpmath.mpf(p)) for p in POWERS}
FUNCTIONS |= {
    "sqrt": (Sqrt(), mpmath.sqrt),
    "inv_sqrt": (InvSqrt(), lambda x: 1 / mpmath.sqrt(x)),
    "log": (Log(), mpmath.log),
    "exp": (Exp(), mpmath.exp),
}


def spectra(d, name):
    if name == "exp":
        return [[-d, 0, d], [-20, -20 + d, 1, 1 + d]] if d < 100 else [[-30, 0, 3]]
    return [[1, 1 + d / 2, 1 + d], [1e-8, 1e-8 * (1 + d), 1, 1 + d]]


def second_difference(f, points):
    """``f[a, b, c]``; equal points are moved apart by far less than a rounding of float64."""
    with mpmath.workdps(120):
        a, b, c = sorted(mpmath.mpf(x) for x in points)
        tiny = max(abs(a), abs(c), mpmath.mpf(1)) * mpmath.mpf(10) ** -35
        b, c = max(b, a + tiny), max(c, max(b, a + tiny) + tiny)
        return ((f(c) - f(b)) / (c - b) - (f(b) - f(a)) / (b - a)) / (c - a)


def expected(f, lam, G, W):
    """The sum over k in many digits, and the sum of the sizes of its terms."""
    n = len(lam)
    total, size = (torch.zeros(n, n, dtype=torch.float64) for _ in range(2))
    differences = {
        triple: second_difference(f, [lam[i].item() for i in triple])
        for triple in itertools.combinations_with_replacement(range(n), 3)
    }
    for i, j in itertools.product(range(n), repeat=2):
        terms = [
            differences[tuple(sorted((i, k, j)))] * mpmath.mpf(x.item())
            for k in range(n)
            for x in (G[i, k] * W[k, j], W[i, k] * G[k, j])
        ]
        total[i, j] = float(mpmath.fsum(terms))
        size[i, j] = float(mpmath.fsum(terms, absolute=True))
    return total, size


@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivative_at_every_distance(name):
    function, f = FUNCTIONS[name]
    for d in DISTANCES:
        for values in spectra(d, name):
            lam = torch.tensor(values, dtype=torch.float64).sort().values
            n = len(lam)
            G, W = (random_symmetric(n, n, seed=k) for k in (0, 1))
            total, size = expected(f, lam, G, W)
            error = (function.second_product(lam, G, W) - total).abs() / size
            # A power of a number has the rounding of its logarithm times the exponent.
            limit = allowed(torch.float64, n, max(1.0, abs(getattr(function, "exponent", 1.0))))
            assert error.max() <= limit, (d, values, error)


def test_second_derivatives_are_no_loop_over_eigenvalues():
    function = Floored(Log(), 1.5)  # by quotients, by series and across the floor
    traced = make_fx(lambda lam, G, W: function.second_product(lam, G, W))
    few, many = (traced(torch.arange(1.0, n), *torch.ones(2, n - 1, n - 1)) for n in (5, 9))
    assert len(few.graph.nodes) == len(many.graph.nodes)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize(
    "function", [Log(), Power(-0.25), Floored(Log(), 1.5), Leading(Power(0.3), 3)], ids=str
)
def test_batch_and_hermitian_directions(function, dtype):
    """By a sum over all triples, one at a time."""
    lam = torch.tensor([[0.5, 1.0, 1.02, 1.6, 3.0], [1.0, 1.0, 2.0, 2.0001, 9.0]]).double()
    G, W = (random_symmetric(2, 5, 5, seed=k).to(dtype) for k in (0, 1))
    if dtype.is_complex:
        skew = [random(2, 5, 5, seed=k) for k in (2, 3)]
        G, W = (M + 1j * (S - S.mT) for M, S in zip((G, W), skew, strict=True))
    got = function.second_product(lam, G, W)
    for item in range(2):
        for i, j in itertools.product(range(5), repeat=2):
            unit = torch.zeros(5, 5, dtype=dtype)
            unit[i, j] = unit[j, i] = 1
            # The trilinear form is symmetric: any of the three directions may be the one outside.
            left = (got[item] * unit.conj()).sum()
            right = (function.second_product(lam[item], G[item], unit) * W[item].conj()).sum()
            assert abs(left.real - right.real) <= 1e-12 * (1 + abs(left))


@pytest.mark.parametrize(
    ("dtype", "scales"),
    [(torch.float64, [1e-158, 1e-165, 1e-310]), (torch.float32, [1e-20, 1e-25])],
)
def test_second_derivative_of_distances_does_not_depend_on_the_scale(dtype, scales):
    X, Y = (random(4, 3, seed=k) for k in (0, 1))
    expected = torch.autograd.functional.hessian(lambda X: frechet_distance(X, Y), X)
    for scale in scales:
        X_s, Y_s = ((t * scale).to(dtype) for t in (X, Y))
        hessian = torch.autograd.functional.hessian(lambda X, Y=Y_s: frechet_distance(X, Y), X_s)
        # A denormal number has few digits.
        tolerance = 1e-4 if dtype == torch.float32 else max(1e-12, 1e-322 / scale)
        assert (hessian.double() - expected).abs().max() <= tolerance * expected.abs().max()


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize(("N", "p", "q"), [(6, 8, 8), (5, 7, 6), (6, 5, 5), (4, 5, 2)])
def test_second_derivative_of_correlations_with_few_samples(N, p, q, dtype):
    X, Y = (random(N, k, dtype=torch.float64, seed=k + s).to(dtype) for s, k in enumerate((p, q)))
    V = random(N, p, seed=9).to(dtype)
    assert canonical_correlations(X, Y, 0.1).shape == (min(p, q),)

    def gradient(X, create_graph=False):
        X = X if create_graph else X.clone().requires_grad_()
        loss = canonical_correlations(X, Y, 0.1).square().sum().sin()
        return torch.autograd.grad(loss, X, create_graph=create_graph)[0]

    numeric = central_difference(gradient, X, V)
    X.requires_grad_()
    (got,) = torch.autograd.grad(gradient(X, create_graph=True), X, V)
    assert (got - numeric).abs().max() <= 1e-7 * numeric.abs().max()
