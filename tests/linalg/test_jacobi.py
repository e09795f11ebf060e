"""Tiny matrices in large batches: as accurate as LAPACK, whatever the scale and the company."""

import pytest
import torch

import matrices
from rootpool.linalg import eigh
from rootpool.linalg.solvers import LEAST_BATCH, MOST_THREADS, is_tiny, jacobi_eigh
from tolerances import allowed
from torture.corpus import MATRICES

SIDES = pytest.mark.parametrize("n", LEAST_BATCH)
DTYPES = pytest.mark.parametrize("dtype", matrices.DTYPES)


def nasty(n: int, dtype: torch.dtype) -> torch.Tensor:
    """Every kind of the corpus, each at many scales."""
    kinds = [make(n, matrices.generator(n)) for make in MATRICES.values()]
    R = torch.stack(kinds).to(dtype)
    top = 120 if dtype == torch.float32 else 1000
    return torch.stack([torch.ldexp(R, torch.tensor(e)) for e in (-top, -40, 0, 40, top)])


@SIDES
@DTYPES
def test_residuals_in_units_of_rounding(n, dtype):
    A = nasty(n, dtype)
    lam, U = jacobi_eigh(A)
    assert (lam.diff(dim=-1) >= 0).all()
    size = A.abs().amax((-2, -1)).double()
    size = torch.where(size == 0, 1, size)[..., None, None]
    R, lam = A.double() / size, lam.double() / size[..., 0]
    U = U.double()
    limit = allowed(dtype, n)
    assert (R @ U - U * lam.unsqueeze(-2)).abs().max() <= limit
    assert (U.mT @ U - torch.eye(n)).abs().max() <= limit
    assert (lam - torch.linalg.eigvalsh(R)).abs().max() <= limit


@pytest.mark.cpu
@SIDES
def test_large_batches_take_this_way_and_agree_with_the_other(n, threads):
    A = matrices.random_symmetric(LEAST_BATCH[n] + 1, n, n)
    threads(MOST_THREADS[n] + 1)
    assert not is_tiny(A)
    threads(MOST_THREADS[n])
    assert is_tiny(A)
    assert not is_tiny(A[:9])
    lam, U = eigh(A)
    alone = eigh(A[5])
    assert torch.allclose(lam, torch.linalg.eigvalsh(A), atol=1e-13)
    assert torch.allclose(lam[5], alone.eigenvalues, atol=1e-13)
    assert torch.allclose((U * lam.unsqueeze(-2)) @ U.mT, A, atol=1e-13)
