"""Laws of matrix functions on generated matrices: what must hold whatever the input."""

import functools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import matrices
from matrices import symmetric
from rootpool.linalg import eigh, inv_sqrtm, logm, newton_schulz, powm, sqrtm, svd
from tolerances import assert_same_to_rounding

laws = settings(derandomize=True, deadline=None, max_examples=25)
seeds = st.integers(0, 2**16)
dtypes = st.sampled_from(matrices.DTYPES)

FUNCTIONS = {
    "sqrtm": sqrtm,
    "inv_sqrtm": inv_sqrtm,
    "logm": logm,
    "powm 0.3": functools.partial(powm, exponent=0.3),
    "newton_schulz": lambda A: newton_schulz(A).root,
}


def value_and_gradient(function, A, G):
    A = A.clone().requires_grad_()
    F = function(A)
    (gradient,) = torch.autograd.grad(F, A, G)
    return F.detach(), symmetric(gradient)


# -------------------------------------------------------------------------------------- company

# Eigen- and singular vectors are compared by what they are used for, a function of the matrix, because
# the vectors themselves are as sensitive as the gaps are small.
COMPANY = FUNCTIONS | {
    "eigh": lambda A: rebuilt(*eigh(A)),
    "svd": lambda A: rebuilt(svd(A).S, svd(A).U),
}
batches = st.tuples(st.integers(1, 40), st.integers(1, 12), st.integers(0, 39), seeds, dtypes)


def rebuilt(lam, U):
    return (U * lam.sqrt().unsqueeze(-2)) @ U.mT


def companions(batch, n, seed, dtype):
    """Definite matrices of condition below ten, at scales that have nothing to do with each other."""
    A = matrices.random_definite(batch, n, n, dtype=dtype, seed=seed)
    A = A + n * torch.eye(n, dtype=dtype)
    scales = torch.exp2(10.0 * matrices.random(batch, seed=seed).round().clamp(-3, 3)).to(dtype)
    return matrices.place(A * scales[:, None, None])


def condition_of_the_problem(name, A):
    """Of roots and their gradients; by way of vectors, gradients have that of the smallest gap."""
    lam = torch.linalg.eigvalsh(A.double())
    condition = float(lam[-1] / lam[0])
    if name in ("eigh", "svd") and len(lam) > 1:
        condition = max(condition, float(lam[-1] / lam.diff().min()))
    return condition


@pytest.mark.parametrize("name", COMPANY)
@laws
@given(batches)
def test_a_matrix_is_the_same_alone_and_in_company_and_in_another_place(name, batch):
    size, n, k, seed, dtype = batch
    A = companions(size, n, seed, dtype)
    k = k % size
    G = matrices.random_symmetric(n, n, dtype=dtype, seed=seed + 1)
    together = value_and_gradient(COMPANY[name], A, G.expand_as(A))
    others = A.roll(1, 0).mul(3.0)
    others[k - 1] = A[k]  # one place further to the front, where memory is aligned differently
    condition = condition_of_the_problem(name, A[k])
    for other, place in ((A[k : k + 1], 0), (others, k - 1), (A[k], ())):
        apart = value_and_gradient(COMPANY[name], other, G.expand_as(other))
        for a, b in zip(together, apart, strict=True):
            assert_same_to_rounding(b[place], a[k], condition=condition)
