"""The root as a polar factor of the features, against `exact` in float64."""

import math

import pytest
import torch
from torch.linalg import LinAlgError

from matrices import random, value_and_gradient
from rootpool.nn import PolarRoot, covariance_pool

TALL, WIDE = (2, 40, 17), (2, 12, 30)
EPS = {dtype: torch.finfo(dtype).eps for dtype in (torch.float32, torch.float64)}


def features(shape, values):
    """Centred maps with these singular values, the first ones of which may be given."""
    B, d, N = shape
    r = min(d, N - 1)
    U = torch.linalg.qr(random(B, d, r)).Q
    V = torch.linalg.qr(random(B, N, N - 1, seed=1) - random(B, N, N - 1, seed=1).mean(-2, True)).Q
    s = torch.zeros(r, dtype=torch.float64)
    s[: len(values)] = torch.tensor(values, dtype=torch.float64)[:r]
    return (U * s) @ V[..., :r].mT


def spectra(condition, count=40):
    return [condition ** (-k / (count - 1)) for k in range(count)]


def oracle(X, g):
    """Root and gradient by the singular vectors of the features, each of which is decomposed alone."""
    found = []
    for x, S2 in zip(X.double(), g + g.mT, strict=True):
        centred = x - x.mean(-1, keepdim=True)
        U, s, Vh = torch.linalg.svd(centred / math.sqrt(x.shape[-1]), full_matrices=False)
        rank = int((s > 1e-7 * s[0]).sum())
        U, s, Vh = U[:, :rank], s[:rank], Vh[:rank]
        M = U.mT @ S2 @ U
        inside, outside = U @ (M / (s[:, None] + s)), (S2 @ U - U @ M) / s
        gradient = ((inside + outside) * s) @ Vh / math.sqrt(x.shape[-1])
        found.append(((U * s) @ U.mT, gradient - gradient.mean(-1, keepdim=True)))
    return [torch.stack(parts) for parts in zip(*found, strict=True)]


def step(X, method, g):
    """Value and gradient."""
    pool = lambda X: covariance_pool(X, method, output="matrix")  # noqa: E731
    return [t.double() for t in value_and_gradient(pool, X, g)]


def relative(found, expected):
    return [float((a - b).norm() / b.norm()) for a, b in zip(found, expected, strict=True)]


def errors(X, dtype):
    """Relative errors of value and gradient."""
    g = random(len(X), X.shape[1], X.shape[1], seed=3)
    return relative(step(X.to(dtype), "polar", g), oracle(X.to(dtype), g))


@pytest.mark.parametrize("shape", [TALL, WIDE, (2, 9, 9), (2, 9, 10), (1, 1, 4)])
@pytest.mark.parametrize("condition", [1.0, 1e2, 1e4])
@pytest.mark.parametrize("dtype", EPS)
def test_as_accurate_as_the_condition_allows(dtype, condition, shape):
    X = features(shape, spectra(condition, min(shape[1], shape[2] - 1)) if shape[1] > 1 else [1.0])
    value, gradient = errors(X + 3, dtype)
    assert value < 30 * EPS[dtype]
    assert gradient < (60 + 2 * condition) * EPS[dtype]


DEFICIENT = {
    "rank 5": lambda: random(2, 40, 5) @ random(2, 5, 17, seed=1),
    "rank 5, many positions": lambda: random(2, 12, 5) @ random(2, 5, 30, seed=1),
    "equal positions": lambda: random(2, 40, 9).repeat_interleave(2, -1)[..., :17],
    "dead channels": lambda: random(2, 12, 30) * (torch.arange(12) < 7)[:, None],
    "sparse": lambda: random(2, 40, 17).relu() * (random(2, 40, 17, seed=1) > 1.5),
}


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("maps", DEFICIENT)
def test_rank_deficient_maps_are_ordinary(maps, dtype):
    value, gradient = errors(DEFICIENT[maps](), dtype)
    assert value < 30 * EPS[dtype]
    # Without the last step these were 1e-2 in float32.
    noise = (10 * EPS[dtype] / PolarRoot.lower) ** 3
    assert gradient < 200 * EPS[dtype] + noise


@pytest.mark.parametrize("lower", [1e-5, 1e-3, 0.02])
@pytest.mark.parametrize("shape", [TALL, WIDE])
def test_small_singular_values_fade_out(shape, lower):
    """From ``lower`` on they have their root, and below a thirtieth of it they count as zeros."""
    g, rest = random(shape[0], shape[1], shape[1], seed=3), min(shape[1], shape[2] - 1) - 3
    for share, counts in ((1.2, True), (1 / 300, False)):
        X = features(shape, [1.0] * 3 + [share * lower * math.sqrt(3)] * rest)
        expected = oracle(X if counts else features(shape, [1.0] * 3), g)
        assert max(relative(step(X, PolarRoot(lower), g), expected)) < max(1e-4, 2 * lower)


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e12, 1e30])
def test_the_scale_of_the_features_does_not_matter(scale):
    X = random(*TALL).float()
    assert max(errors(X * scale, torch.float32)) < 30 * EPS[torch.float32]


@pytest.mark.parametrize(
    "X", [torch.full((2, 3, 5), 7.0), torch.ones(2, 3, 1), torch.zeros(1, 5, 3)]
)
def test_constant_maps_have_the_root_zero(X):
    X = X.clone().requires_grad_()
    Q = covariance_pool(X, "polar")
    (gradient,) = torch.autograd.grad(Q.sum(), X)
    assert not Q.any()
    assert not gradient.any()


def test_overflow_is_an_error():
    X = torch.tensor([[[3e38, -3e38, 1e38, 0.0]]]).requires_grad_()
    with pytest.raises(LinAlgError, match=r"overflowed torch.float32 for features\[0\]"):
        covariance_pool(X, "polar")
    Q = covariance_pool(X / 1e30, "polar")
    with pytest.raises(LinAlgError, match="the gradient of covariance_pool overflowed"):
        torch.autograd.grad(Q, X, torch.full_like(Q, 3e38))
