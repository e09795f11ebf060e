"""Decompositions: fallbacks, and matrices on which LAPACK may give up."""

import pytest
import torch

import matrices
from rootpool.linalg import eigh, sqrtm, svd
from tolerances import allowed, assert_same_to_rounding


def dead_channel_covariances(count: int = 60) -> torch.Tensor:
    """Float32 covariances of rank 2 or 3 in 64 channels, most of them dead.

    With some versions of LAPACK ``torch.linalg.eigh`` fails on two of them, as it did on a covariance
    met in training.
    """
    covariances = []
    for seed in range(count):
        generator = matrices.generator(seed)
        live, positions, rank = 20 + seed % 12, (49, 100, 25, 16)[seed % 4], 2 + seed % 3
        left = torch.randn(live, rank, device="cpu", generator=generator)
        right = torch.randn(rank, positions, device="cpu", generator=generator)
        X = torch.zeros(64, positions, device="cpu")
        X[torch.randperm(64, device="cpu", generator=generator)[:live]] = (left @ right).relu()
        X = X - X.mean(1, keepdim=True)
        covariances.append(X @ X.mT / positions)
    return matrices.place(torch.stack(covariances))


def check_decomposition(A, lam, U, tolerance):
    n, scale = A.shape[-1], A.abs().amax((-2, -1), keepdim=True)
    assert ((A @ U - U * lam.unsqueeze(-2)).abs() <= tolerance * scale).all()
    assert ((U.mT @ U - torch.eye(n, dtype=A.dtype)).abs() <= tolerance).all()
    assert (lam.diff() >= 0).all()


def test_matrices_on_which_lapack_may_fail():
    A = dead_channel_covariances()
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


@pytest.mark.parametrize("how", ["raise", "nan"])
@pytest.mark.parametrize("failures", [1, 2, 3, 4, 5])
def test_every_rung_of_the_ladder_gives_a_decomposition(flaky, how, failures):
    A = matrices.random_symmetric(4, 5, 5)
    A[2, 0, 0] = 77.0
    expected = torch.linalg.eigvalsh(A)
    is_bad = lambda M: bool(M.diagonal().abs().max() > 50) or bool((M.abs() == 77 / 128).any())  # noqa: E731
    flaky("eigh", is_bad=is_bad, times=failures, how=how)
    lam, U = eigh(A)
    for k in range(4):
        assert_same_to_rounding(lam[k], expected[k])
        check_decomposition(A[k], lam[k], U[k], allowed(A.dtype, 5))


@pytest.mark.parametrize("failures", [1, 2, 3, 4, 5])
def test_every_rung_of_the_ladder_of_svd(flaky, failures):
    A = matrices.random(3, 5, 4)
    expected = torch.linalg.svdvals(A)
    flaky("svd", is_bad=lambda M: True, times=failures)
    U, s, Vh = svd(A)
    assert torch.allclose(s, expected, rtol=1e-13)
    assert torch.allclose((U * s.unsqueeze(-2)) @ Vh, A, rtol=1e-12)


def test_when_every_rung_breaks_the_error_names_the_matrix(flaky):
    A = matrices.random_symmetric(2, 2, 5, 5)
    flaky("eigh", is_bad=lambda M: True)
    with pytest.raises(torch.linalg.LinAlgError, match=r"eigh did not converge on A\[0, 0\] of"):
        eigh(A)
    with pytest.raises(torch.linalg.LinAlgError, match=r"sqrtm: eigh did not converge on A of"):
        sqrtm(torch.eye(3))
