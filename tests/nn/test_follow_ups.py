"""Methods that were published after the paper, against arithmetic that shares none of their code."""

import mpmath
import pytest
import torch
from torch.linalg import LinAlgError

import matrices
import oracles
from matrices import relative_error
from rootpool.linalg import Minimax, skip_checks
from rootpool.nn import METHODS, LogCholesky, covariance_pool

NAMES = [name for name, method in METHODS.items() if method.source == "follow-up"]
SHAPES = [(2, 4, 9), (2, 4, 4), (2, 5, 3)]  # more, as many, fewer positions than channels


def moments(X, centred):
    """Matrices of mpmath by loops over positions, from features ``(B, d, N)``."""
    for x in X.tolist():
        rows = [[mpmath.mpf(v) for v in row] for row in x]
        if centred:
            rows = [[v - mpmath.fsum(row) / len(row) for v in row] for row in rows]
        yield mpmath.matrix(
            [
                [mpmath.fsum(a * b for a, b in zip(r, q, strict=True)) / len(r) for q in rows]
                for r in rows
            ]
        )


# Each method by its definition, from a matrix of mpmath to one, in 50 digits.


def seb(P):
    root = oracles.power(P, 0.5)
    return root * (1 + mpmath.mnorm(root * mpmath.expm(-P), "f"))


def box_cox(P, theta=0.5, ridge=0.0):
    lam, U = mpmath.eigsy(P)
    level = mpmath.mpf(10) ** -20 * max(lam)
    lam = [(x if x > level else mpmath.mpf(0)) + mpmath.mpf(ridge) for x in lam]
    theta = mpmath.mpf(theta)
    values = [mpmath.log(x) if theta == 0 else (x**theta - 1) / theta for x in lam]
    return U * mpmath.diag(values) * U.T


def log_cholesky(P, ridge=1e-6):
    L = mpmath.cholesky(P + mpmath.mpf(ridge) * mpmath.eye(P.rows))
    T = L.copy()
    for i in range(P.rows):
        T[i, i] = mpmath.log(L[i, i])
    return T + T.T


def brownian(P, temperature=0.5, eps=1e-5):
    n = P.rows
    D = mpmath.matrix(n, n)
    for i in range(n):
        for j in range(n):
            square = P[i, i] + P[j, j] - 2 * P[i, j]
            D[i, j] = mpmath.sqrt(mpmath.mpf(temperature) * square + mpmath.mpf(eps))
    H = mpmath.eye(n) - mpmath.ones(n) / n
    return H * D * H


def isice(P, sparsity=0.01, step=1.0, iterations=5, ridge=3.4e-3):
    n, trace = P.rows, lambda M: mpmath.fsum(M[i, i] for i in range(M.rows))

    def inverse(M):
        return (M / trace(M) + mpmath.mpf(ridge) * mpmath.eye(n)) ** -1 / trace(M)

    C = P / trace(P)
    theta = inverse(C)
    for k in range(iterations):
        eta = mpmath.mpf(step) * (1 - mpmath.mpf(k) / max(iterations - 1, 1))
        g = C - inverse(theta)
        new = mpmath.matrix(n, n)
        for i in range(n):
            for j in range(n):
                t = theta[i, j]
                plus = max(max(t, 0) - eta * (g[i, j] + mpmath.mpf(sparsity)), 0)
                minus = max(max(-t, 0) - eta * (-g[i, j] + mpmath.mpf(sparsity)), 0)
                new[i, j] = plus - minus
        theta = (new + new.T) / 2
    return theta / mpmath.sqrt(trace(theta))


def minimax(P, steps=8, lower=1e-3):
    """The polynomials, eigenvalue by eigenvalue."""
    lam, U = mpmath.eigsy(P)
    trace = mpmath.fsum(lam)
    values = []
    for x in lam:
        y, z = x / trace, mpmath.mpf(1)
        for a, b, c in Minimax(steps, lower).coefficients:
            h = a + b * (z * y) + c * (z * y) ** 2
            y, z = y * h, z * h
        values.append(y * mpmath.sqrt(trace))
    return U * mpmath.diag(values) * U.T


ORACLES = {
    "minimax": minimax,
    "seb": seb,
    "box-cox": box_cox,
    "log-cholesky": log_cholesky,
    "brownian": brownian,
    "isice": isice,
}


def expected(name, X, **options):
    found = [ORACLES[name](M, **options) for M in moments(X, METHODS[name].centred)]
    return torch.tensor(
        [[[float(Q[i, j]) for j in range(Q.cols)] for i in range(Q.rows)] for Q in found],
        dtype=torch.float64,
    )


def special(kind, shape):
    X = matrices.random(*shape)
    if kind == "equal channels":
        X[:, 1] = X[:, 0]
    elif kind == "orthogonal channels":  # of equal length: all eigenvalues are the same
        frame = torch.cat([torch.ones(9, 1), matrices.random(9, 4)], 1)
        X = torch.linalg.qr(frame)[0][:, 1:].mT.unsqueeze(0).contiguous()
    return X


INPUTS = [("ordinary", shape) for shape in SHAPES]
INPUTS += [("equal channels", (2, 4, 9)), ("orthogonal channels", (1, 4, 9))]


# Each method as it is, and with other parameters.
VALUES = {
    **{name: (name, {}) for name in NAMES},
    **{
        f"box-cox {options}": ("box-cox", options)
        for options in (
            *({"theta": theta} for theta in (1.5, 1.0, 0.1, 1e-3)),
            *({"theta": theta, "ridge": 1e-3} for theta in (1.0, 1e-3, 0)),
        )
    },
    **{
        f"isice {options}": ("isice", options)
        for options in (
            {"iterations": 1},
            {"iterations": 2, "sparsity": 0.5},
            {"iterations": 8, "step": 0.5},
            {"ridge": 0.1},
        )
    },
}


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize(("kind", "shape"), INPUTS)
def test_values_by_definition(value, kind, shape):
    name, options = VALUES[value]
    words = {"theta": "exponent"}
    method = METHODS[name](**{words.get(key, key): x for key, x in options.items()})
    for scale in (1e-10, 1.0, 1e10) if not options else (1.0,):
        if name == "log-cholesky" and scale > 1:
            continue  # a singular covariance needs a ridge that the scale does not drown
        X = special(kind, shape) * scale
        got = covariance_pool(X, method, output="matrix")
        # A singular covariance with a ridge of 1e-6 has a condition of that size.
        tolerance = 1e-9 if name == "log-cholesky" or scale != 1 else 1e-12
        tolerance /= options.get("theta") or 1  # rounding is divided by the exponent
        assert relative_error(got, expected(name, X, **options)) < tolerance


# With a ridge that finite differences can see across.
SMOOTH = {"log-cholesky": LogCholesky(ridge=0.1)}
BASELINES = ("log", "covariance", "signed-sqrt", "power")


@pytest.mark.parametrize("name", [*NAMES, *BASELINES])
def test_gradients(name):
    """By differences; a constant map has the value of a zero covariance, and no gradient."""
    method = SMOOTH.get(name, METHODS[name]())
    for kind, shape in INPUTS:
        singular = kind != "ordinary" or shape[2] <= shape[1]
        if name in BASELINES and singular:
            continue  # where roots have no derivative, or one along the rank alone

        def pool(X, kind=kind):
            if kind == "equal channels":  # which stay equal
                X = torch.cat([X[:, :1], X[:, :1], X[:, 2:]], 1)
            return covariance_pool(X, method)

        X = special(kind, shape).requires_grad_()
        assert torch.autograd.gradcheck(pool, X, fast_mode=True)
    X = (matrices.random(2, 4, 1).expand(2, 4, 9) * 10).clone().requires_grad_()
    Q = covariance_pool(X, method, output="matrix")
    if method.centred:
        assert torch.allclose(Q, method(torch.zeros(2, 4, 4).double()))
        assert (torch.autograd.grad(Q, X, matrices.random(2, 4, 4, seed=1))[0] == 0).all()
    empty = torch.zeros(0, 4, 3, requires_grad=True)
    covariance_pool(empty, method).sum().backward()
    assert empty.grad.shape == empty.shape


# ---------------------------------------------------------------------------------------- the others


def test_a_ridge_that_is_lost_is_an_error():
    X = matrices.random(2, 4, 2) * torch.tensor([1.0, 1e10])[:, None, None]
    with pytest.raises(LinAlgError, match=r"log-cholesky: covariance\[1\] is not .* raise its r"):
        covariance_pool(X, "log-cholesky")
    with skip_checks():
        assert covariance_pool(X, "log-cholesky")[1].isnan().any()
    assert covariance_pool(X, LogCholesky(ridge=1e10)).isfinite().all()
