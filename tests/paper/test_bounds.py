"""Bounds by formula against a search that knows only the rules, and against other spectra."""

import math

import pytest
import torch

from rootpool.linalg import Ordinary, Pade, Taylor, Truncated
from rootpool.nn import (
    SVDPI,
    Exact,
    MPNCov,
    SVDNewton,
    SVDPade,
    SVDTaylor,
    SVDTopN,
    SVDTrunc,
    covariance_pool,
    resolve_method,
)
from rootpool.paper.bounds import bound_by_search, newton_bound_by_search, of_pairs

KERNELS = (MPNCov(), SVDTopN(), SVDTrunc(), SVDPI(), SVDTaylor(), SVDPade())
EPS = {torch.float64: 2.0**-52, torch.float32: 2.0**-23}
dtypes = pytest.mark.parametrize("dtype", EPS)


@dtypes
@pytest.mark.parametrize("method", KERNELS, ids=str)
def test_search_and_formula_agree(method, dtype):
    searched, _ = bound_by_search(of_pairs(method.rule), dtype)
    assert searched == pytest.approx(method.kernel_bound(dtype).value, rel=1e-6)


@dtypes
@pytest.mark.parametrize(
    ("method", "bound"),
    [
        (SVDTaylor(degree=9), lambda eps: 10 / eps),
        (SVDPI(iterations=9), lambda eps: 9 / eps),
        (SVDTrunc(bound=100.0), lambda eps: 100.0),
        (MPNCov(), lambda eps: eps**-2),
        (SVDPade(degree=9), lambda eps: eps**-2),
        (SVDPade(degree=2**60), lambda eps: max(2**60 / eps, eps**-2)),
        (SVDNewton(iterations=3), lambda eps: 27 / 8),
        (Exact(), lambda eps: 1.0),
    ],
)
def test_values(method, bound, dtype):
    assert method.kernel_bound(dtype).value == pytest.approx(bound(EPS[dtype]), rel=1e-12)


@pytest.mark.parametrize("rule", [Taylor(5), Pade(5), Truncated(1e6), Ordinary()])
def test_no_spectrum_exceeds_the_bound_of_the_search(rule):
    best, (smaller, larger) = bound_by_search(of_pairs(rule))
    pair = torch.tensor([smaller, larger], dtype=torch.float64)
    assert float(rule(pair).abs().max()) == best
    generator = torch.Generator().manual_seed(1)
    for scale in (1e-16, 1e-8, 1.0):
        lam = scale * torch.rand(200, 8, generator=generator, dtype=torch.float64)
        lam = lam.clamp_min(EPS[torch.float64])
        lam[:, 1] = lam[:, 0]
        lam[:, 3] = lam[:, 2] * (1 + EPS[torch.float64])
        assert float(rule(lam).abs().max()) <= best


TRIGGERS = {
    "lam_i = lam_j = eps": lambda i, j, eps: (i, j) == (eps, eps),
    "lam_i and lam_j are eps and the next number above it": lambda i, j, eps: (
        (i, j) == (math.nextafter(eps, 1), eps)
    ),
    "|lam_i - lam_j| <= 1 / T": lambda i, j, eps: abs(i - j) <= 1e-10,
}


@pytest.mark.parametrize("method", KERNELS, ids=str)
def test_the_eigenvalues_that_the_search_finds_are_those_that_the_text_names(method):
    _, (j, i) = bound_by_search(of_pairs(method.rule))
    assert TRIGGERS[method.kernel_bound().trigger](i, j, EPS[torch.float64])


@pytest.mark.parametrize("iterations", [1, 2, 5, 10])
def test_newton_schulz_has_its_steepest_slope_at_zero(iterations):
    value, where = newton_bound_by_search(iterations)
    assert value == pytest.approx(1.5**iterations)
    assert where == (0, 0)


def test_the_gradient_of_exact_stays_within_its_bound():
    """A channel of tiny variance: coefficients up to 1, so no more than 2 S U comes back."""
    X = torch.randn(1, 2, 50, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    X[:, 1] *= 1e-12
    X.requires_grad_()
    G = torch.ones(1, 2, 2).double()
    (gradient,) = torch.autograd.grad(covariance_pool(X, output="matrix"), X, G)
    assert float(gradient.norm()) * math.sqrt(50) <= 2 * float(G.norm())


@pytest.mark.parametrize("name", ["isqrt-cov", "log"])
def test_methods_without_a_kernel_have_no_bound(name):
    assert resolve_method(name).kernel_bound() is None
