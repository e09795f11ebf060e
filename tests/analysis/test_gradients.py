"""Gradient statistics against the definitions, by loops and by the layer itself."""

import math

import pytest
import torch

import matrices
from rootpool.analysis import gradient_statistics, kernel_statistics
from rootpool.nn import METHODS, SVDPI, SVDTaylor, SVDTopN, SVDTrunc, covariance_pool

EPS = torch.finfo(torch.float64).eps


def with_spectrum(*lam):
    """One map whose covariance is diag(lam): orthogonal contrasts over 16 positions."""
    H = torch.ones(1, 1).double()
    for _ in range(4):
        H = torch.kron(H, torch.tensor([[1.0, 1.0], [1.0, -1.0]]).double())
    return torch.tensor(lam).double().sqrt()[:, None] * H[1 : len(lam) + 1][None]


@pytest.mark.parametrize(
    ("lam", "clamped", "tied"),
    [
        ((4, 2, 1), 0, 0),
        ((4, 0, 0, 0), 3 / 4, 3 / 4),
        ((4, 2, 0), 1 / 3, 0),
        ((0, 0), 1, 1),
        ((4, 4, 1, 0), 1 / 4, 1 / 2),
        ((5,), 0, 0),
    ],
)
def test_shares_of_clamped_and_tied_eigenvalues(lam, clamped, tied):
    got = kernel_statistics(with_spectrum(*lam), "svd-pade")
    assert (got["clamped"], got["tied"]) == (clamped, tied)


def test_what_is_below_eps_of_the_compute_dtype_is_clamped():
    X = with_spectrum(1.0, 1e-9, 0.5e-9)
    assert kernel_statistics(X, "mpn-cov")["clamped"] == 0
    single = kernel_statistics(X, "mpn-cov", compute_dtype=torch.float32)
    assert single["clamped"] == single["tied"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("method", "largest"),
    [
        ("mpn-cov", 1.0),  # 1 / (2 - 1); a tie has 0
        ("svd-trunc", 1e10),  # at the tie
        (SVDTrunc(bound=0.25), 0.25),
        (SVDTaylor(degree=7), 8 / EPS),  # (degree + 1) / lam_i, at the tie of two clamped ones
        ("svd-pade", 101 / EPS),
        (SVDPI(iterations=5), 5 / EPS),
        (SVDTopN(2), 0.5),  # 4, 2 and zeros: 1 / (4 - 2) and 1 / (2 - 0)
        ("exact", math.nan),
        ("isqrt-cov", math.nan),
        ("svd-newton", math.nan),
    ],
)
def test_largest_kernel_entry(method, largest):
    got = kernel_statistics(with_spectrum(4, 2, 1, 0, 0), method)["largest_kernel"]
    assert got == pytest.approx(largest, nan_ok=True)


def test_the_largest_entry_is_taken_over_the_batch():
    X = torch.cat([with_spectrum(4, 2, 1), with_spectrum(4, 3.5, 1)])
    for batch in (X, X.flip(0)):
        assert kernel_statistics(batch, "mpn-cov")["largest_kernel"] == pytest.approx(2.0)


@pytest.mark.parametrize("method", METHODS)
def test_norm_is_that_of_the_layer(method):
    X = matrices.random(2, 5, 9)
    Y = X.clone().requires_grad_()
    pooled = covariance_pool(Y, method)
    upstream = matrices.random(*pooled.shape, seed=3)
    pooled.backward(upstream)
    got = gradient_statistics(X, method, upstream)
    assert got["norm"] == pytest.approx(float(Y.grad.square().sum().sqrt()))
    assert got["largest"] == pytest.approx(float(Y.grad.abs().max()))
    assert got["nonfinite"] == 0
    assert X.grad is None


def test_the_default_upstream_is_always_the_same_and_does_not_touch_the_generator():
    X = matrices.random(3, 4, 9)
    state = torch.get_rng_state()
    first = gradient_statistics(X, "exact")
    assert torch.equal(torch.get_rng_state(), state)
    assert gradient_statistics(X, "exact") == pytest.approx(first, nan_ok=True)
    with torch.no_grad():  # works where gradients are off, too
        assert gradient_statistics(X, "exact") == pytest.approx(first, nan_ok=True)


def test_broken_and_empty_features():
    X = matrices.random(2, 3, 5)
    X[0, 0, 0] = math.nan
    assert all(math.isnan(v) for v in kernel_statistics(X, "svd-pade").values())
    broken = gradient_statistics(X, "isqrt-cov")
    assert broken["nonfinite"] == 15  # the whole map, the other one is sound
    with pytest.raises(ValueError, match=r"needs at least one map, got \(0, 3, 5\)"):
        gradient_statistics(torch.zeros(0, 3, 5), "exact")
