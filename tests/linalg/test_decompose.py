"""Decompositions: fallbacks, and matrices on which LAPACK may give up."""

import pytest
import torch

import matrices
from rootpool.linalg import eigh, eigvalsh, sqrtm, svd, svdvals
from tolerances import allowed, assert_same_to_rounding
from torture.corpus import MATRICES


def check_decomposition(A, lam, U, tolerance):
    n, scale = A.shape[-1], A.abs().amax((-2, -1), keepdim=True)
    assert ((A @ U - U * lam.unsqueeze(-2)).abs() <= tolerance * scale).all()
    assert ((U.mT @ U - torch.eye(n, dtype=A.dtype)).abs() <= tolerance).all()
    assert (lam.diff() >= 0).all()


def test_matrices_on_which_lapack_may_fail():
    """Float32 covariances of low rank, most channels dead, as one met in training."""
    make = MATRICES["dead channels"]
    A = matrices.place(torch.stack([make(64, matrices.generator(k)) for k in range(60)]).float())
    check_decomposition(A, *eigh(A), tolerance=2e-5)
    U, s, Vh = svd(A)
    root = sqrtm(A)
    for product in ((U * s.unsqueeze(-2)) @ Vh, root @ root):
        assert ((product - A).abs() <= 2e-5 * A.abs().amax((-2, -1), True)).all()


class Flaky:
    """Stand in for a LAPACK routine that fails on chosen matrices in the first ``times`` tries."""

    def __init__(self, routine, is_bad, times=10**9, how="raise"):
        self.routine, self.is_bad, self.times, self.how = routine, is_bad, times, how

    def __call__(self, A, *args):
        batch = A.reshape(-1, *A.shape[-2:])
        bad = self.times > 0 and any(self.is_bad(matrix) for matrix in batch)
        if bad:
            self.times -= 1
            if self.how == "raise":
                raise torch.linalg.LinAlgError("did not converge")
        result = self.routine(A, *args)
        if bad:
            for factor in result:
                factor.fill_(torch.nan)
        return result


@pytest.fixture
def flaky(monkeypatch):
    def install(routine, **options):
        fake = Flaky(getattr(torch.linalg, routine), **options)
        monkeypatch.setattr(torch.linalg, routine, fake)
        return fake

    return install


# The batch, the matrix by itself, scaled, reordered; what is left is float64 on the CPU.
RUNGS = pytest.mark.parametrize("failures", [1, 2, 3, 4])


@RUNGS
@pytest.mark.parametrize("how", ["raise", "nan"])
def test_every_rung_of_the_ladder_gives_a_decomposition(flaky, how, failures):
    A = matrices.random_symmetric(4, 5, 5)
    A[2, 0, 0] = 77.0
    expected = torch.linalg.eigvalsh(A)
    is_bad = lambda M: bool(M.diagonal().abs().max() > 50) or bool((M.abs() == 77 / 64).any())  # noqa: E731
    flaky("eigh", is_bad=is_bad, times=failures, how=how)
    lam, U = eigh(A)
    for k in range(4):
        assert_same_to_rounding(lam[k], expected[k])
        check_decomposition(A[k], lam[k], U[k], allowed(A.dtype, 5))


@RUNGS
def test_every_rung_of_the_ladder_of_svd(flaky, failures):
    A = matrices.random(3, 5, 4)
    expected = torch.linalg.svdvals(A)
    flaky("svd", is_bad=lambda M: True, times=failures)
    U, s, Vh = svd(A)
    assert torch.allclose(s, expected, rtol=1e-13)
    assert torch.allclose((U * s.unsqueeze(-2)) @ Vh, A, rtol=1e-12)


@RUNGS
@pytest.mark.parametrize("function", [eigvalsh, svdvals], ids=lambda f: f.__name__)
def test_every_rung_of_values_alone(flaky, function, failures):
    A = matrices.random_symmetric(2, 5, 5)
    expected = function(A)
    flaky(function.__name__, is_bad=lambda M: True, times=failures)
    assert_same_to_rounding(function(A.tril() if function is eigvalsh else A), expected)


def test_when_every_rung_breaks_the_error_names_the_matrix(flaky):
    A = matrices.random_symmetric(2, 2, 5, 5)
    flaky("eigh", is_bad=lambda M: True)
    with pytest.raises(torch.linalg.LinAlgError, match=r"eigh did not converge on A\[0, 0\] of"):
        eigh(A)
    with pytest.raises(torch.linalg.LinAlgError, match=r"sqrtm: eigh did not converge on A of"):
        sqrtm(torch.eye(3))
