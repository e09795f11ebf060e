"""Laws of matrix functions on generated matrices: what must hold whatever the input."""

import functools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import matrices
from matrices import TOLERANCE, relative_error, symmetric
from rootpool.linalg import eigh, inv_sqrtm, logm, newton_schulz, powm, sqrtm, svd

laws = settings(derandomize=True, deadline=None, max_examples=25)
seeds = st.integers(0, 2**16)
dtypes = st.sampled_from(matrices.DTYPES)
# Ratios of eigenvalues up to 1e3, with ties: conditions that a law to 1000 rounding units allows.
spectra = st.lists(st.floats(1e-3, 1.0) | st.sampled_from([0.5, 1.0]), min_size=1, max_size=7).map(
    lambda lam: torch.tensor(lam, dtype=torch.float64).sort().values
)

FUNCTIONS = {
    "sqrtm": sqrtm,
    "inv_sqrtm": inv_sqrtm,
    "logm": logm,
    "powm 0.3": functools.partial(powm, exponent=0.3),
    "newton_schulz": lambda A: newton_schulz(A).root,
}
DEGREE = {"sqrtm": 0.5, "inv_sqrtm": -0.5, "powm 0.3": 0.3, "newton_schulz": 0.5}
functions = pytest.mark.parametrize("name", FUNCTIONS)


def value_and_gradient(function, A, G):
    A = A.clone().requires_grad_()
    F = function(A)
    (gradient,) = torch.autograd.grad(F, A, G)
    return F.detach(), symmetric(gradient)


def close(got, expected, dtype, factor=1000.0):
    scale = expected.double().abs().max() + 1e-300
    assert (got.double() - expected.double()).abs().max() <= factor * TOLERANCE[dtype] * scale


@laws
@given(spectra, seeds, dtypes)
def test_root_squared_is_the_matrix_and_times_its_inverse_the_identity(lam, seed, dtype):
    A = matrices.with_spectrum(lam, seed).to(dtype)
    Q, Z = sqrtm(A), inv_sqrtm(A)
    eye = torch.eye(len(lam), dtype=dtype)
    close(Q @ Q, A, dtype, 1)
    close(Q @ Z, eye, dtype)
    close(Z @ A @ Z, eye, dtype)
    close(torch.linalg.matrix_exp(logm(A)), A, dtype)


@functions
@laws
@given(spectra, seeds, dtypes)
def test_orthogonal_change_of_basis(name, lam, seed, dtype):
    """f(R A R') = R f(A) R', and the gradient turns with it."""
    n, function = len(lam), FUNCTIONS[name]
    A, G = matrices.with_spectrum(lam, seed), matrices.random_symmetric(n, n, seed=seed + 1)
    R = matrices.orthogonal(n, seed + 2)
    F, gradient = value_and_gradient(function, A.to(dtype), G.to(dtype))
    turned = value_and_gradient(
        function, symmetric(R @ A @ R.mT).to(dtype), symmetric(R @ G @ R.mT).to(dtype)
    )
    close(turned[0], R @ F.double() @ R.mT, dtype)
    close(turned[1], R @ gradient.double() @ R.mT, dtype)


@functions
@laws
@given(spectra, seeds, dtypes)
def test_permutation_of_the_channels(name, lam, seed, dtype):
    n, function = len(lam), FUNCTIONS[name]
    A = matrices.with_spectrum(lam, seed).to(dtype)
    G = matrices.random_symmetric(n, n, seed=seed + 1).to(dtype)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    F, gradient = value_and_gradient(function, A, G)
    moved = value_and_gradient(function, A[order][:, order], G[order][:, order])
    close(moved[0], F[order][:, order], dtype)
    close(moved[1], gradient[order][:, order], dtype)


@pytest.mark.parametrize("name", DEGREE)
@laws
@given(spectra, seeds, dtypes, st.integers(-15, 15))
def test_scaling(name, lam, seed, dtype, exponent):
    """f(c A) = c^p f(A), df(c A) = c^(p - 1) df(A); log(c A) = log(c) I + log(A)."""
    n, c = len(lam), 4.0**exponent
    A = matrices.with_spectrum(lam, seed).to(dtype)
    G = matrices.random_symmetric(n, n, seed=seed + 1).to(dtype)
    F, gradient = value_and_gradient(FUNCTIONS[name], A, G)
    scaled = value_and_gradient(FUNCTIONS[name], c * A, G)
    close(scaled[0] / c ** DEGREE[name], F, dtype)
    close(scaled[1] / c ** (DEGREE[name] - 1), gradient, dtype)
    shift = math.log(c) * torch.eye(n, dtype=torch.float64)
    close(logm(c * A), logm(A).double() + shift, dtype)


# -------------------------------------------------------------------------------------- company

# The promise: eigh, svd, sqrtm and inv_sqrtm give each matrix the same bits, in the gradient too,
# whatever else is in the batch. Powers and the logarithm keep it up to the last digits only, because
# torch's vectorised pow and log1p round the end of an array differently.
TO_THE_BIT = {
    "sqrtm": lambda A: (sqrtm(A),),
    "inv_sqrtm": lambda A: (inv_sqrtm(A),),
    "eigh": lambda A: tuple(eigh(A)),
    "svd": lambda A: tuple(svd(A)),
}
TO_ROUNDING = {
    "logm": lambda A: (logm(A),),
    "powm 0.3": lambda A: (powm(A, 0.3),),
    "newton_schulz": lambda A: tuple(newton_schulz(A)),
}
batches = st.tuples(st.integers(1, 40), st.integers(1, 12), st.integers(0, 39), seeds, dtypes)


def with_upstream(function, A):
    A = A.clone().requires_grad_()
    outputs = function(A)
    weights = [torch.arange(x[0].numel()).reshape(x[0].shape).to(x).sin() for x in outputs]
    upstream = [w.expand_as(x) for w, x in zip(weights, outputs, strict=True)]
    return *(x.detach() for x in outputs), *torch.autograd.grad(outputs, A, upstream)


def companions(batch, n, seed, dtype):
    """Definite matrices at scales that have nothing to do with each other."""
    A = matrices.random_definite(batch, n, n, dtype=dtype, seed=seed)
    scales = torch.exp2(10.0 * matrices.random(batch, seed=seed).round().clamp(-3, 3)).to(dtype)
    return A * scales[:, None, None]


@pytest.mark.parametrize("name", TO_THE_BIT)
@laws
@given(batches)
def test_a_matrix_has_the_same_bits_alone_and_in_company(name, batch):
    size, n, k, seed, dtype = batch
    A = companions(size, n, seed, dtype)
    k = k % size
    together = with_upstream(TO_THE_BIT[name], A)
    others = A.roll(1, 0).mul(3.0)
    others[k] = A[k]
    for other in (A[k : k + 1], others):
        place = k if len(other) == size else 0
        apart = with_upstream(TO_THE_BIT[name], other)
        assert all(torch.equal(a[k], b[place]) for a, b in zip(together, apart, strict=True))


@pytest.mark.parametrize("name", ["sqrtm", "inv_sqrtm", "eigh"])
@laws
@given(st.integers(1, 9), seeds, dtypes)
def test_a_matrix_without_batch_dimension_has_the_same_bits(name, n, seed, dtype):
    A = companions(3, n, seed, dtype)
    for together, alone in zip(TO_THE_BIT[name](A), TO_THE_BIT[name](A[1]), strict=True):
        assert torch.equal(together[1], alone)


@pytest.mark.parametrize("name", TO_ROUNDING)
@laws
@given(batches)
def test_a_matrix_is_the_same_to_rounding_alone_and_in_company(name, batch):
    size, n, k, seed, dtype = batch
    A = companions(size, n, seed, dtype)
    k = k % size
    together = with_upstream(TO_ROUNDING[name], A)
    alone = with_upstream(TO_ROUNDING[name], A[k : k + 1])
    for a, b in zip(together, alone, strict=True):
        assert torch.equal(a[k], b[0]) or relative_error(b[0], a[k]) < TOLERANCE[dtype]
