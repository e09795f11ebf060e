"""Every method against arithmetic that shares none of its code."""

import math

import pytest
import torch

import matrices
import oracles
from matrices import relative_error, value_and_gradient
from rootpool.nn import (
    ISqrtCov,
    MatrixPower,
    NewtonFused,
    SVDNewton,
    SVDPade,
    SVDTaylor,
    SVDTopN,
    SVDTrunc,
    covariance,
    covariance_pool,
)

SHAPES = [(2, 4, 9), (2, 4, 4), (2, 6, 3)]  # more, as many, fewer positions than channels
shapes = pytest.mark.parametrize("shape", SHAPES)


def test_the_parameters_are_those_of_the_paper():
    assert ISqrtCov() == ISqrtCov(iterations=5)
    assert SVDNewton() == SVDNewton(iterations=10)
    assert SVDTopN() == SVDTopN(count=200)
    assert SVDTrunc() == SVDTrunc(bound=1e10)
    assert SVDTaylor() == SVDTaylor(degree=100)
    assert SVDPade() == SVDPade(degree=100)


def newton_schulz_by_loops(P, iterations):
    out = []
    for matrix in P:
        A, eye = matrix / matrix.trace(), torch.eye(len(matrix), dtype=P.dtype)
        Y, Z = A, eye
        for _ in range(iterations):
            Y, Z = Y @ (3 * eye - Z @ Y) / 2, (3 * eye - Z @ Y) @ Z / 2
        out.append(matrix.trace().sqrt() * Y)
    return torch.stack(out)


@pytest.mark.parametrize("iterations", [1, 2, 5, 15])
@pytest.mark.parametrize("kind", [ISqrtCov, NewtonFused, SVDNewton])
@shapes
def test_iterative_methods_by_loops(kind, iterations, shape):
    """All have the gradient of the iteration; the value is its own, or (SVDNewton) that of the root."""
    X, G = matrices.random(*shape), matrices.random(shape[0], shape[1], shape[1], seed=1)
    pool = lambda X: covariance_pool(X, kind(iterations), output="matrix")  # noqa: E731
    by_loops = lambda X: newton_schulz_by_loops(covariance(X), iterations)  # noqa: E731
    gradients = [value_and_gradient(f, X, G)[1] for f in (pool, by_loops)]
    assert relative_error(*gradients) < 1e-12
    value = covariance_pool(X, output="matrix") if kind is SVDNewton else by_loops(X)
    assert relative_error(pool(X), value) < (1e-7 if kind is SVDNewton else 1e-12)


@shapes
@pytest.mark.parametrize("count", [1, 2, 3, 200])
def test_topn_is_the_truncated_root(shape, count):
    X, G = matrices.random(*shape), matrices.random(shape[0], shape[1], shape[1], seed=1)

    def brute_force(X):
        A = (X - X.mean(-1, keepdim=True)) / math.sqrt(shape[2])
        U, S, _ = torch.linalg.svd(A, full_matrices=False)
        return (U[..., :count] * S[..., None, :count]) @ U[..., :count].mT

    method = SVDTopN(count)
    assert relative_error(covariance_pool(X, method, output="matrix"), brute_force(X)) < 1e-12
    gradient = value_and_gradient(lambda X: covariance_pool(X, method, output="matrix"), X, G)[1]
    direction = matrices.random(*shape, seed=5)
    numeric = oracles.central_difference(lambda X: (brute_force(X) * G).sum(), X, direction)
    assert (gradient * direction).sum() == pytest.approx(float(numeric), rel=1e-6)


# ----------------------------------------------------------------------------- other normalisations


@shapes
def test_baselines_by_their_definitions(shape):
    X = matrices.random(*shape)
    P = torch.stack([torch.cov(x, correction=0) for x in X])
    pool = lambda method: covariance_pool(X, method, output="matrix")  # noqa: E731
    assert torch.allclose(pool("covariance"), P)
    assert torch.allclose(pool("signed-sqrt"), P.sign() * P.abs().sqrt())
    assert torch.allclose(pool("power"), pool("exact"), atol=1e-7)
    assert torch.allclose(pool(MatrixPower(1.0)), P)
    ridge = 1e-3 * torch.eye(shape[1])
    assert torch.allclose(torch.linalg.matrix_exp(pool("log")), P + ridge)


def test_signed_sqrt_at_dead_channels():
    """They get no gradient, and the others that which they have without them."""
    X, G = matrices.random(1, 3, 5), matrices.random_symmetric(1, 3, 3, seed=1)
    X[:, 1] = 0
    live = [0, 2]
    pool = lambda X: covariance_pool(X, "signed-sqrt", output="matrix")  # noqa: E731
    gradient = value_and_gradient(pool, X, G)[1]
    assert (gradient[:, 1] == 0).all()
    alone = value_and_gradient(pool, X[:, live], G[:, live][:, :, live])[1]
    assert relative_error(gradient[:, live], alone) < 1e-13
