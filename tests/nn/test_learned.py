"""Learned filters: values and gradients by slow references, parameters that live in a pooling."""

import math

import mpmath
import pytest
import torch

import matrices
import oracles
from matrices import relative_error
from rootpool.nn import (
    METHODS,
    CovariancePool,
    LearnedFilter,
    LearnedMixture,
    LearnedPower,
    covariance,
    covariance_pool,
    learned_parameters,
    set_method,
    using_method,
)

LEARNED = [name for name, method in METHODS.items() if issubclass(method, LearnedFilter)]
shapes = pytest.mark.parametrize(
    "shape", [(2, 5, 3), (2, 4, 4), (2, 3, 7), (1, 4, 2), (3, 1, 5), (2, 6, 1)]
)


def parameters(name, seed=3):
    initial = torch.tensor(METHODS[name]().initial_parameters(), dtype=torch.float64)
    return initial + 0.3 * matrices.random(len(initial), seed=seed)


def h(name, a, theta):
    """The filters in mpmath, number by number."""
    first, *_ = theta = [mpmath.mpf(float(t)) for t in theta]
    if name == "learned-power":
        return a ** mpmath.exp(first)
    terms = [
        mpmath.exp(t) * a / (a + mpmath.mpf(10) ** k)
        for t, k in zip(theta, LearnedMixture.DECADES, strict=False)
    ]
    return sum(terms) + mpmath.exp(theta[-1]) * a


def brute_force(name, X, theta):
    """From the singular values of the features themselves."""
    out = []
    for x in X:
        A = (x - x.mean(-1, keepdim=True)) / math.sqrt(x.shape[-1])
        U, S, _ = torch.linalg.svd(A, full_matrices=False)
        S = torch.where((S / S.max()) > 1e-12, S, 0)
        trace = S.square().sum()
        f = torch.tensor(
            [float(h(name, mpmath.mpf(float(s**2 / trace)), theta)) for s in S], dtype=torch.float64
        )
        out.append((U * (f * trace.sqrt() / f.norm())) @ U.mT)
    return torch.stack(out)


@pytest.mark.parametrize("name", LEARNED)
@pytest.mark.parametrize("shape", [(2, 5, 3), (2, 4, 4), (2, 3, 7)])
def test_value_and_gradients_by_brute_force(name, shape):
    X, theta = matrices.random(*shape).requires_grad_(), parameters(name).requires_grad_()
    Q = covariance_pool(X, name, output="matrix", parameters=theta)
    assert relative_error(Q.detach(), brute_force(name, X.detach(), theta.detach())) < 1e-12
    G = matrices.random(*Q.shape, seed=1)
    to_features, to_parameters = torch.autograd.grad(Q, (X, theta), G)
    for gradient, at, value in (
        (to_features, X, lambda X: brute_force(name, X, theta.detach())),
        (to_parameters, theta, lambda t: brute_force(name, X.detach(), t)),
    ):
        direction = matrices.random(*at.shape, seed=7)
        numeric = oracles.central_difference(
            lambda x, value=value: (value(x) * G).sum(), at.detach(), direction
        )
        assert (gradient * direction).sum() == pytest.approx(float(numeric), rel=1e-6)


@pytest.mark.parametrize("name", LEARNED)
@shapes
def test_gradcheck(name, shape):
    X, theta = matrices.random(*shape).requires_grad_(), parameters(name).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda X, theta: covariance_pool(X, name, parameters=theta), (X, theta)
    )


def tied(kind):
    """Features with repeated eigenvalues, and with fewer dimensions than channels."""
    basis = torch.linalg.qr(torch.cat([torch.ones(8, 1).double(), matrices.random(8, 5)], 1))[0]
    X = basis[:, 1:].mT.unsqueeze(0)
    if kind == "ties and zeros":  # two equal eigenvalues, then none
        return torch.cat([X[:, :2], X[:, :2], X[:, :1] * 0], 1)
    return X


@pytest.mark.parametrize("name", LEARNED)
@pytest.mark.parametrize("kind", ["ties", "ties and zeros"])
def test_ties_and_zeros(name, kind):
    """Along directions that keep the rank; between ties no eigenvector exists."""
    X, theta = tied(kind), parameters(name).requires_grad_()
    mix = (torch.eye(5).double() + 0.1 * matrices.random(5, 5, seed=2)).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda mix, theta: covariance_pool(mix @ X, name, parameters=theta), (mix, theta)
    )
    eye = torch.eye(5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda mix: covariance_pool(mix @ X, name), eye)


@pytest.mark.parametrize("name", LEARNED)
@shapes
def test_from_features_and_from_the_covariance_are_the_same(name, shape):
    X, theta = matrices.random(*shape).requires_grad_(), parameters(name).requires_grad_()
    fused = covariance_pool(X, name, output="matrix", parameters=theta)
    square = METHODS[name]().at(theta)(covariance(X))
    assert torch.allclose(fused, square, atol=1e-13)
    G = matrices.random(*fused.shape, seed=1)
    for a, b in zip(
        torch.autograd.grad(fused, (X, theta), G),
        torch.autograd.grad(square, (X, theta), G),
        strict=True,
    ):
        assert torch.allclose(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", LEARNED)
def test_divided_differences_do_not_cancel(name):
    """Against 50 digits, for gaps from one down to a rounding."""
    method, theta = METHODS[name](), parameters(name)
    for base in (1e-7, 1e-3, 0.4):
        for gap in (0.0, 1e-15, 1e-12, 1e-8, 1e-3, 0.5, 0.999):
            a = torch.tensor([base * (1 - gap), base], dtype=torch.float64)
            got = float(method.differences(a, theta)[0, 1])
            with mpmath.workdps(50):
                low, high = (mpmath.mpf(float(v)) for v in a)
                if low == high:
                    expected = mpmath.diff(lambda x: h(name, x, theta), low)
                else:
                    rise = h(name, high, theta) - h(name, low, theta)
                    expected = rise / (high - low)
            assert got == pytest.approx(float(expected), rel=1e-13)


@pytest.mark.parametrize("name", LEARNED)
def test_the_norm_is_that_of_the_root(name):
    X = matrices.random(3, 6, 20)
    Q = covariance_pool(X, name, output="matrix", parameters=parameters(name))
    root = covariance_pool(X, output="matrix")
    assert torch.allclose(Q.flatten(1).norm(dim=1), root.flatten(1).norm(dim=1), rtol=1e-13)


def test_the_mixture_starts_at_a_power():
    a = torch.logspace(-5, 0, 30, dtype=torch.float64)
    for p in (0.3, 0.5, 0.7):
        method = LearnedMixture(p)
        theta = torch.tensor(method.initial_parameters(), dtype=torch.float64)
        ratio = method.values(a, theta) / a**p
        assert (ratio[10:] / ratio[-1] - 1).abs().max() < (0.05 if p < 0.4 else 0.02)


# ---------------------------------------------------------------------------- in a pooling


@pytest.mark.parametrize("name", LEARNED)
def test_parameters_live_in_the_pooling(name):
    pool = CovariancePool(4, name)
    (parameter,) = learned_parameters(pool)
    assert dict(pool.named_parameters()) == {f"learned.{name}": parameter}
    pool(matrices.random(2, 4, 9).float()).square().sum().backward()
    assert parameter.grad.isfinite().all()
    with torch.no_grad():
        parameter += 0.1
    again = CovariancePool(4, name)
    again.load_state_dict(pool.state_dict())
    X = matrices.random(2, 4, 9).float()
    assert torch.equal(again(X), pool(X))


def test_a_change_of_the_method_keeps_what_was_learned():
    pool, X = CovariancePool(4, "learned-power"), matrices.random(2, 4, 9)
    with torch.no_grad():
        pool.learned["learned-power"].fill_(math.log(0.3))
    learned = pool(X)
    set_method(pool, "exact")
    assert relative_error(pool(X).detach(), covariance_pool(X)) < 1e-14
    with using_method(pool, "learned-mixture"):
        assert len(learned_parameters(pool)) == 2
    pool.method = "learned-power"
    assert torch.equal(pool(X), learned)
    assert relative_error(learned.detach(), covariance_pool(X, LearnedPower(0.3))) < 1e-6


def test_what_was_learned_can_be_read():
    pool = CovariancePool(4, LearnedPower(0.3))
    method = pool.method
    assert method.readable(pool.learned["learned-power"])["exponent"] == pytest.approx(0.3)
    mixture = LearnedMixture()
    weights = mixture.readable(torch.tensor(mixture.initial_parameters()))
    assert weights["weight_1e-2"] == pytest.approx(10 * weights["weight_1e-4"], rel=1e-5)


def test_an_exponent_that_is_not_trained():
    X, fixed = matrices.random(2, 4, 9).requires_grad_(), LearnedPower(0.3, trained=False)
    pool = CovariancePool(4, fixed)
    assert not list(pool.parameters())
    G = matrices.random(2, 10, seed=1)
    for a, b in (
        (pool(X), covariance_pool(X, LearnedPower(0.3))),
        *(
            (
                torch.autograd.grad(covariance_pool(X, m), X, G)[0]
                for m in (fixed, LearnedPower(0.3))
            ),
        ),
    ):
        assert torch.allclose(a, b, rtol=1e-13)


def test_learning_finds_an_exponent():
    """Targets made with another exponent: gradient descent goes there."""
    X = matrices.random(16, 5, 12)
    target = covariance_pool(X, LearnedPower(0.3))
    pool = CovariancePool(5, "learned-power").double()
    optimizer = torch.optim.SGD(learned_parameters(pool), lr=0.3)
    for _ in range(60):
        optimizer.zero_grad()
        (pool(X) - target).square().sum(1).mean().backward()
        optimizer.step()
    assert pool.learned["learned-power"].exp().item() == pytest.approx(0.3, abs=0.01)


def test_a_wrong_number_of_parameters():
    with pytest.raises(ValueError, match=r"has 1 trainable parameters: expected .* got \(2,\)"):
        covariance_pool(torch.randn(1, 3, 5), "learned-power", parameters=torch.zeros(2))
    with pytest.raises(ValueError, match=r"Exact\(\) has 0 trainable parameters"):
        covariance_pool(torch.randn(1, 3, 5), parameters=torch.zeros(1))
