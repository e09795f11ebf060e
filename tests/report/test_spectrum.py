"""Statistics of covariances against covariances written out and decomposed by numpy."""

import math

import numpy as np
import pytest
import torch

import matrices
from rootpool.report.spectrum import STATISTICS, covariance_eigenvalues, spectrum_statistics

EPS = np.finfo(np.float64).eps
SHAPES = [(4, 6, 20), (3, 6, 6), (3, 8, 4), (1, 1, 9), (4, 3, 5, 2)]


def by_numpy(X, eps=EPS):
    """Singular values of the centred features, squared: another way to the same eigenvalues."""
    rows = []
    for x in X.double().numpy():
        x = x.reshape(x.shape[0], -1)
        s = np.linalg.svd((x - x.mean(1, keepdims=True)) / np.sqrt(x.shape[1]), compute_uv=False)
        lam = np.zeros(x.shape[0])
        lam[: len(s)] = s**2
        lam[lam < 1e-13 * lam[0]] = 0
        rows.append(lam)
    condition = [max(lam[0], eps) / max(lam[-1], eps) for lam in rows]
    return {
        "condition_mean": np.mean(condition),
        "lambda_1": np.mean([lam[0] for lam in rows]),
        "lambda_min_kept": np.mean([lam[lam > 0].min() for lam in rows]),
        "rank": np.mean([(lam > 0).sum() for lam in rows]),
        "eigenvalue_ratio": np.mean(
            [lam[0] / lam[1] if len(lam) > 1 and lam[1] > 0 else math.inf for lam in rows]
        ),
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_statistics_against_numpy(shape, dtype):
    X = matrices.random(*shape).to(dtype)
    X[-1, 0] *= 100
    got, expected = spectrum_statistics(X), by_numpy(X)
    assert tuple(got) == STATISTICS
    assert got == pytest.approx(expected, rel=1e-9)


CONSTANT = dict(zip(STATISTICS, (1.0, 0.0, 0.0, 0.0, 1.0), strict=True))  # rank zero, and a tie


@pytest.mark.parametrize(
    "X",
    [
        torch.zeros(2, 3, 5),
        torch.full((2, 3, 5), 0.1),
        torch.randn(2, 3, 1),
        torch.tensor([[[1e30]], [[1e-30]]]),
    ],
)
def test_constant_maps_and_broken_ones(X):
    assert spectrum_statistics(X) == CONSTANT
    for value in (math.nan, math.inf):
        X[-1, 0, -1] = value
        nan = pytest.approx(dict.fromkeys(STATISTICS, math.nan), nan_ok=True)
        assert spectrum_statistics(X) == nan


def test_no_gradient_and_no_autocast():
    X = matrices.random(2, 4, 9).float().requires_grad_()
    expected = covariance_eigenvalues(X)
    assert not expected.requires_grad
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(covariance_eigenvalues(X), expected)


def test_wrong_arguments():
    assert covariance_eigenvalues(torch.zeros(0, 3, 5)).shape == (0, 3)
    for X, options, message in (
        (torch.zeros(0, 3, 5), {}, r"needs at least one map, got \(0, 3, 5\)"),
        (torch.zeros(3, 5), {}, r"spectrum_statistics expects features \(B, C, H, W\)"),
        (torch.zeros(1, 3, 5), {"eps": 0.0}, "eps must be positive and finite, got 0"),
    ):
        with pytest.raises(ValueError, match=message):
            spectrum_statistics(X, **options)
