"""Alignment of points and null vectors: against known motions, many digits and differences."""

import itertools

import mpmath
import pytest
import torch
from torch.testing import assert_close

import matrices
import oracles
from matrices import gradients, inner, random, with_singular_values
from rootpool.linalg import align, null_vectors, rotation
from tolerances import allowed

CUBE = torch.tensor(list(itertools.product([-1.0, 1.0], repeat=3)), dtype=torch.float64)
POINTS = {
    "general": random(7, 3),
    "a cube": CUBE,
    "in a plane": random(6, 3) * torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64),
    "two dimensions": random(5, 2),
    "five dimensions": random(9, 5),
    "far away": random(7, 3) + 100,
}


def motion(d, seed=1):
    S = random(d, d, seed=seed)
    return torch.linalg.matrix_exp(S - S.mT), random(d, seed=seed + 1)


@pytest.mark.parametrize("dtype", matrices.DTYPES)
@pytest.mark.parametrize("kind", POINTS)
def test_a_motion_is_found(kind, dtype):
    X = POINTS[kind].to(dtype)
    R, t = (part.to(dtype) for part in motion(X.shape[-1]))
    limit = 10 * allowed(dtype, X.shape[-1]) * (1 + X.abs().max())
    got = align(X, 1.7 * X @ R.mT + t, scale=True)
    assert (got.rotation - R).abs().max() < limit
    assert abs(got.scale - 1.7) < limit
    assert (got.translation - t).abs().max() < limit * (1 + X.abs().max())
    fixed = align(X, X @ R.mT + t)
    assert (fixed.rotation - R).abs().max() < limit
    assert fixed.scale == 1


@pytest.mark.parametrize("scale", [True, False])
def test_nothing_near_is_better_and_reflections_are_refused(scale):
    X, Y, w = random(4, 6, 3), -random(4, 6, 3, seed=1), random(4, 6, seed=2).abs()

    def error(R, t, s):
        moved = s[..., None, None] * X @ R.mT + t.unsqueeze(-2)
        return (w * (moved - Y).square().sum(-1)).sum(-1)

    best = align(X, Y, w, scale)
    assert torch.allclose(torch.linalg.det(best.rotation), torch.ones(4).double())
    least = error(*best)
    for seed in range(20):
        R, t = motion(3, 5 + 2 * seed)
        near = torch.linalg.matrix_exp(0.05 * (R - R.mT))
        assert bool((error(near @ best.rotation, best.translation, best.scale) >= least).all())
        assert bool((error(best.rotation, best.translation + 0.1 * t, best.scale) >= least).all())
        other = best.scale + 0.1 * (seed - 10) if scale else best.scale
        assert bool((error(best.rotation, best.translation, other) >= least).all())


def test_weights_are_repetitions_and_masks_leave_points_out():
    X, Y, k = random(6, 3), random(6, 3, seed=1), torch.tensor([1, 2, 0, 3, 1, 1])
    expected = align(X.repeat_interleave(k, 0), Y.repeat_interleave(k, 0), scale=True)
    assert_close(align(X, Y, k, scale=True), expected, rtol=0, atol=1e-13)
    mask = k > 0
    assert_close(align(X, Y, mask), align(X[mask], Y[mask]), rtol=0, atol=1e-13)


@pytest.mark.parametrize("kind", ["general", "a cube", "in a plane", "two dimensions"])
def test_gradients_by_differences(kind):
    X = POINTS[kind]
    R, t = motion(X.shape[-1])
    Y = X @ R.mT + t + (0.3 * random(*X.shape, seed=9) if kind == "general" else 0)
    w = random(len(X), seed=3).abs() if kind == "general" else torch.ones(len(X)).double()

    def loss(X, Y, w):
        found = align(X, Y, w, scale=True)
        return sum((part * part.sin() * (k + 1)).sum() for k, part in enumerate(found))

    inputs = [X, Y, w]
    for k, g in enumerate(gradients(loss, *inputs)):
        V = random(*g.shape, seed=20 + k)
        at = lambda A, k=k: loss(*inputs[:k], A, *inputs[k + 1 :])  # noqa: E731
        expected = oracles.central_difference(at, inputs[k], V)
        assert torch.isclose((g * V).sum(), expected, rtol=1e-7, atol=1e-9)
    assert torch.autograd.gradgradcheck(loss, [A.clone().requires_grad_() for A in inputs])


# --------------------------------------------------------------------------------------------------
# Many 3 x 3 rotations in float32


def hard_matrices():
    kinds = [[3, 2, 1], [1, 1, 1], [2, 2, 1], [2, 1, 1], [1, 1, 0]]
    kinds += [[1, 1e-2, 0], [1, 1e-4, 0], [1, 0.5, 0.5]]
    made = torch.stack([with_singular_values(3, 3, [float(x) for x in s]) for s in kinds])
    return torch.cat([made, -made[:5], 1e-15 * made[:3], 1e15 * made[:3]]).float()


NOT_UNIQUE = (9, 11)  # reflections with equal smallest singular values


@pytest.mark.parametrize("copies", [1, 400])
def test_rotations_in_float32_are_right_to_the_last_digit(copies):
    """Some by LAPACK, and enough of them for the other way; against many digits."""
    A = hard_matrices()
    R = rotation(A.repeat(copies, 1, 1))
    for k, matrix in enumerate(A):
        exact = oracles.nearest_rotation(oracles.digits(matrix.double()))
        wanted = torch.tensor([[float(x) for x in row] for row in exact.tolist()])
        if k not in NOT_UNIQUE:
            assert (R[k :: len(A)] - wanted).abs().max() < 4e-7
    identity = torch.eye(3)
    assert (R @ R.mT - identity).abs().max() < 4e-7
    assert (torch.linalg.det(R) - 1).abs().max() < 4e-7


def test_both_ways_have_the_same_derivative():
    A = hard_matrices()[[0, 1, 2, 3, 4]]
    G = random(5, 3, 3, dtype=torch.float32)

    (expected,) = gradients(lambda A: inner(G.double(), rotation(A)), A.double())
    for copies in (1, 1000):
        last = lambda A, copies=copies: rotation(A.repeat(copies, 1, 1))[-5:]  # noqa: E731
        (got,) = gradients(lambda A, last=last: inner(G, last(A)), A)
        assert torch.allclose(got.double(), expected, rtol=1e-5, atol=1e-5)


# --------------------------------------------------------------------------------------------------
# Null vectors

KINDS = {
    "separated": (5, 4, [3.0, 2.0, 1.0, 0.1]),
    "null": (5, 4, [3.0, 2.0, 1.0, 0.0]),
    "others equal": (4, 4, [2.0, 2.0, 2.0, 0.5]),
    "wide": (3, 4, [2.0, 2.0, 1.0]),
    "close": (4, 4, [2.0, 2.0 - 1e-9, 1.0, 1e-9]),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 2])
def test_null_vectors_to_many_digits(kind, k, dtype):
    m, n, s = KINDS[kind]
    if (k, kind) == (2, "others equal"):
        s = [2.0, 2.0, 0.5, 0.5]
    A = with_singular_values(m, n, s, dtype)
    W, V = matrices.symmetric(random(n, n, dtype=dtype)), random(m, n, dtype=dtype, seed=1)

    def digits(A):
        return oracles.weighted(W, mpmath.eye(n) - oracles.projector(A.H * A, n - k))

    def f(A):
        N = null_vectors(A, k)
        return inner(W, N @ N.mH)

    (g,) = gradients(f, A)
    assert abs(f(A) - oracles.value(digits, A)) < allowed(torch.float64, n, 10)
    slope = oracles.slope(digits, [A], [V])
    for along in (inner(g, V), torch.func.jvp(f, (A,), (V,))[1]):
        assert abs(float(along) - slope) < allowed(torch.float64, n, 100)


def test_a_single_vector_has_the_derivative_of_every_loss():
    A = with_singular_values(8, 9, [3.0, 3.0, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0])
    V, weight = random(8, 9, seed=2), random(9, 1, seed=3)
    reference = null_vectors(A)

    def f(A):
        N = null_vectors(A)
        return (N * (N * reference).sum().sign() * weight).sum()

    (g,) = gradients(f, A)
    assert torch.isclose((g * V).sum(), oracles.central_difference(f, A, V), rtol=1e-7)
    empty = random(0, 8, 9).requires_grad_()
    assert torch.autograd.grad(null_vectors(empty).sum(), empty)[0].shape == (0, 8, 9)
