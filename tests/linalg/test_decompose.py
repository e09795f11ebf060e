"""The forward: threads, fallbacks, and matrices on which LAPACK gives up."""

import gc
import os
import subprocess
import sys
import textwrap
import threading
import weakref

import pytest
import torch

import matrices
from rootpool.linalg import eigh, sqrtm, svd
from rootpool.linalg.parallel import even_cuts, run_pieces


def dead_channel_covariances(count: int = 60) -> torch.Tensor:
    """Float32 covariances of rank 2 or 3 in 64 channels, most of them dead.

    Two of these sixty make ``torch.linalg.eigh`` fail with MKL's LAPACK (torch 2.13 to 2.15), as
    does a covariance met in training.
    """
    covariances = []
    for seed in range(count):
        generator = torch.Generator().manual_seed(seed)
        live, positions, rank = 20 + seed % 12, (49, 100, 25, 16)[seed % 4], 2 + seed % 3
        left = torch.randn(live, rank, generator=generator)
        right = torch.randn(rank, positions, generator=generator)
        X = torch.zeros(64, positions)
        X[torch.randperm(64, generator=generator)[:live]] = (left @ right).relu()
        X = X - X.mean(1, keepdim=True)
        covariances.append(X @ X.mT / positions)
    return torch.stack(covariances)


def check_decomposition(A, lam, U, tolerance):
    n, scale = A.shape[-1], A.abs().amax((-2, -1), keepdim=True)
    assert ((A @ U - U * lam.unsqueeze(-2)).abs() <= tolerance * scale).all()
    assert ((U.mT @ U - torch.eye(n, dtype=A.dtype)).abs() <= tolerance).all()
    assert (lam.diff() >= 0).all()


def test_matrices_on_which_lapack_fails():
    A = dead_channel_covariances()
    check_decomposition(A, *eigh(A), tolerance=2e-5)
    U, s, Vh = svd(A)
    assert (((U * s.unsqueeze(-2)) @ Vh - A).abs() <= 2e-5 * A.abs().amax((-2, -1), True)).all()
    assert sqrtm(A).isfinite().all()


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e300])
def test_extreme_scales(scale):
    A = matrices.matrix("separated") * scale
    lam, U = eigh(A)
    check_decomposition(A / scale, lam / scale, U, 1e-13)


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
def test_every_rung_of_the_ladder_gives_the_same_decomposition(flaky, how, failures):
    A = matrices.random_symmetric(4, 5, 5)
    A[2, 0, 0] = 77.0
    expected = torch.linalg.eigh(A)
    is_bad = lambda M: bool(M.diagonal().abs().max() > 50) or bool((M.abs() == 77 / 128).any())  # noqa: E731
    flaky("eigh", is_bad=is_bad, times=failures, how=how)
    lam, U = eigh(A)
    assert torch.allclose(lam, expected[0], rtol=1e-13)
    check_decomposition(A, lam, U, 1e-13)
    others = [0, 1, 3]
    assert torch.equal(U[others], expected[1][others])


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


# ---------------------------------------------------------------------------------------- threads


@pytest.fixture
def threads():
    """Set torch's thread count and put it back."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize("dtype", matrices.DTYPES)
@pytest.mark.parametrize(
    "shape", [(300, 9, 9), (40, 33, 33), (16, 34, 34), (7, 70, 70), (2, 128, 128), (1, 64, 64)]
)
def test_same_bits_for_any_number_of_threads(shape, dtype, threads):
    A = matrices.random_symmetric(*shape, dtype=dtype)
    results = []
    for count in (1, 2, 3, 8):
        threads(count)
        B = (A @ A.mT).requires_grad_()
        (gradient,) = torch.autograd.grad(sqrtm(B).sin().sum(), B)
        results.append((*eigh(A), *svd(A), gradient))
        assert torch.get_num_threads() == count
    for other in results[1:]:
        assert all(torch.equal(x, y) for x, y in zip(results[0], other, strict=True))


@pytest.mark.parametrize("n", [90, 300])
def test_single_matrix_has_the_same_bits_in_deterministic_mode(n, threads):
    A = matrices.random_symmetric(n, n)
    torch.use_deterministic_algorithms(True)
    try:
        results = []
        for count in (1, 2):
            threads(count)
            results.append(eigh(A).eigenvectors)
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch.equal(*results)


def test_matrix_is_decomposed_the_same_alone_and_in_company(threads):
    threads(2)
    A = matrices.random_symmetric(64, 48, 48)
    U = eigh(A).eigenvectors
    for k in (0, 17, 63):
        assert torch.equal(eigh(A[k]).eigenvectors, U[k])


def test_settings_of_the_caller_and_of_new_threads_do_not_change(threads):
    threads(2)
    eigh(matrices.random_symmetric(64, 64, 64))
    assert torch.get_num_threads() == 2
    seen = []
    thread = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert seen == [2]


def test_slices_cover_the_batch_once(threads):
    threads(3)
    for batch in (0, 1, 2, 5, 64):
        hits = torch.zeros(batch, dtype=torch.int64)

        def work(piece, hits=hits):
            hits[piece] += 1

        run_pieces(work, even_cuts(batch, 4))
        assert (hits == 1).all()


def test_errors_of_workers_reach_the_caller(threads):
    threads(2)
    A = matrices.random_symmetric(64, 64, 64)
    A[40, 3, 2] = torch.inf
    with pytest.raises(ValueError, match=r"A\[40\] has NaN or infinite"):
        eigh(A)


def test_errors_of_matrix_functions_name_the_item_of_the_whole_batch(threads):
    threads(2)
    A = torch.eye(64).repeat(8, 8, 1, 1)
    A[5, 3, 2, 2] = -1
    with pytest.raises(torch.linalg.LinAlgError, match=r"A\[5, 3\] has the eigenvalue -1"):
        sqrtm(A)


def test_errors_of_workers_hold_no_memory(threads):
    threads(2)
    A = matrices.random_symmetric(64, 64, 64)
    A[40, 3, 2] = torch.inf
    alive = weakref.ref(A)
    gc.collect()
    gc.disable()
    try:
        with pytest.raises(ValueError, match=r"A\[40\]") as caught:
            eigh(A)
        del A, caught
        assert alive() is None
    finally:
        gc.enable()


def test_many_python_threads_at_once(threads):
    threads(2)
    A = matrices.random_symmetric(32, 40, 40)
    expected = eigh(A).eigenvectors
    same = []

    def run():
        for _ in range(5):
            same.append(torch.equal(eigh(A).eigenvectors, expected))

    callers = [threading.Thread(target=run) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert same == [True] * 40


def test_workers_follow_inference_mode_and_gradient_mode(threads):
    threads(2)
    A = matrices.random_symmetric(64, 64, 64).requires_grad_()
    with torch.inference_mode():
        assert eigh(A).eigenvectors.is_inference()
    assert eigh(A).eigenvectors.requires_grad
    with torch.no_grad():
        assert not eigh(A).eigenvectors.requires_grad


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform cannot fork")
def test_safe_after_fork_and_in_dataloader_workers():
    # In a process of its own: forking the test process, full of threads, is not ours to risk.
    code = """
    import os
    import torch
    from torch.utils.data import DataLoader, Dataset
    from rootpool.linalg import eigh

    class Covariances(Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, k):
            return eigh(A[k]).eigenvalues

    A = torch.randn(4, 32, 48, 48, generator=torch.Generator().manual_seed(0))
    A = A + A.mT

    if __name__ == "__main__":
        torch.set_num_threads(2)
        here = [Covariances()[k] for k in range(4)]  # starts the pool in the parent
        for context in ("fork", "spawn"):
            loader = DataLoader(Covariances(), 1, num_workers=2, multiprocessing_context=context)
            there = [batch[0] for batch in loader]
            assert all(torch.equal(a, b) for a, b in zip(here, there, strict=True)), context
        child = os.fork()  # keeps the setting of two threads, but none of the threads
        if child == 0:
            os._exit(0 if torch.equal(Covariances()[1], here[1]) else 1)
        assert os.waitpid(child, 0)[1] == 0
        print("all equal")
    """
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", RUN_AS_MAIN, textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "all equal" in result.stdout, result.stderr


# spawn needs a main module that is a file
RUN_AS_MAIN = """
import os, runpy, sys, tempfile
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "program.py")
    with open(path, "w") as file:
        file.write(sys.argv[1])
    sys.argv = [path]
    runpy.run_path(path, run_name="__main__")
"""


def denormal_singular(dtype):
    """Rank one, rounded to denormal numbers: eigenvalues below zero by a few of the smallest."""
    v = matrices.random(6, 1)
    tiny = torch.finfo(dtype).tiny * 2.0**-12
    return ((v @ v.mT) * tiny).to(dtype)


@pytest.mark.parametrize("dtype", matrices.DTYPES)
def test_round_off_of_denormal_numbers_is_round_off(dtype):
    A = denormal_singular(dtype)
    Q = sqrtm(A).double()
    scale = 2.0 ** (1000 if dtype == torch.float64 else 140)
    error = (Q @ Q * scale - A.double() * scale).abs().max() / (A.double() * scale).abs().max()
    assert error < 6 * 2.0**-10
