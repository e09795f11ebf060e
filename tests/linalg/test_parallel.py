"""The pool of threads: same results, no hang, and nothing left changed, whatever happens around it."""

import concurrent.futures
import gc
import threading
import time
import weakref

import pytest
import torch

import matrices
from rootpool.linalg import eigh, parallel, sqrtm, svd
from rootpool.linalg.parallel import even_cuts, run_pieces
from tolerances import assert_same_to_rounding

pytestmark = pytest.mark.cpu
PATIENCE = 120  # seconds; a test that needs them all has found a deadlock


def root_and_gradient(A):
    A = A.clone().requires_grad_()
    Q = sqrtm(A)
    return Q.detach(), *torch.autograd.grad(Q.sin().sum(), A)


def assert_same(A, got, expected):
    """Roots and their gradients agree to rounding; the gradient has the condition of the matrix."""
    condition = float(torch.linalg.cond(A).max())
    for a, b in zip(got, expected, strict=True):
        assert_same_to_rounding(a, b, condition=condition)


def definite(*shape, dtype=torch.float64):
    """Matrices of condition about ten."""
    n = shape[-1]
    return matrices.random_definite(*shape, dtype=dtype) + n * torch.eye(n, dtype=dtype)


@pytest.mark.parametrize("dtype", matrices.DTYPES)
@pytest.mark.parametrize(
    "shape", [(300, 9, 9), (40, 33, 33), (16, 34, 34), (7, 70, 70), (2, 128, 128), (1, 64, 64)]
)
def test_results_do_not_depend_on_the_number_of_threads_or_on_company(shape, dtype, threads):
    """Nor on the rest of the batch, nor on a matrix's place in it."""
    A = definite(*shape, dtype=dtype)

    def results(A):
        return (*root_and_gradient(A), eigh(A).eigenvalues, svd(A).S)

    threads(1)
    expected = results(A)
    alone = tuple(torch.stack(parts) for parts in zip(*map(results, A[:5]), strict=True))
    assert_same(A, alone, [part[:5] for part in expected])
    assert_same(A, [part.roll(-1, 0) for part in results(A.roll(1, 0))], expected)
    for count in (2, 3, 8):
        threads(count)
        assert_same(A, results(A), expected)
        assert torch.get_num_threads() == count


def threads_of_the_solver(monkeypatch, run):
    """The Python thread and the number of BLAS threads of each call of torch.linalg.eigh."""
    seen, solve = [], torch.linalg.eigh

    def watched(A):
        seen.append((threading.get_ident(), torch.get_num_threads()))
        return solve(A)

    with monkeypatch.context() as patch:
        patch.setattr(torch.linalg, "eigh", watched)
        run()
    return seen


def test_single_matrix_gets_one_blas_thread_in_deterministic_mode_alone(threads, monkeypatch):
    threads(2)
    A = matrices.random_symmetric(90, 90)
    assert [count for _, count in threads_of_the_solver(monkeypatch, lambda: eigh(A))] == [2]
    # As torch.use_deterministic_algorithms(True) makes it, which imports the compiler.
    monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: True)
    assert [count for _, count in threads_of_the_solver(monkeypatch, lambda: eigh(A))] == [1]


@pytest.mark.parametrize("function", [sqrtm, eigh])
def test_work_off_the_cpu_stays_in_the_calling_thread_and_in_one_piece(
    function, threads, monkeypatch
):
    threads(2)
    A = definite(64, 64, 64)
    here = threading.get_ident()
    in_workers = threads_of_the_solver(monkeypatch, lambda: function(A))
    assert len(in_workers) > 1
    assert all(thread != here for thread, _ in in_workers)
    # Current streams belong to threads: a worker would compute on another stream than the caller.
    monkeypatch.setattr(torch.Tensor, "device", property(lambda A: torch.device("cuda")))
    assert [thread for thread, _ in threads_of_the_solver(monkeypatch, lambda: function(A))] == [
        here
    ]


def test_errors_of_workers_name_the_item_of_the_whole_batch(threads):
    threads(2)
    A = torch.eye(64).repeat(8, 8, 1, 1)
    A[5, 3, 2, 2] = -1
    with pytest.raises(torch.linalg.LinAlgError, match=r"A\[5, 3\] has the eigenvalue -1"):
        sqrtm(A)
    A[5, 3, 2, 2] = torch.inf
    with pytest.raises(ValueError, match=r"A\[5, 3\] has NaN or infinite"):
        eigh(A)


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


def test_workers_follow_inference_mode_and_gradient_mode(threads):
    threads(2)
    A = matrices.random_symmetric(64, 64, 64).requires_grad_()
    with torch.inference_mode():
        assert eigh(A).eigenvectors.is_inference()
    assert eigh(A).eigenvectors.requires_grad
    with torch.no_grad():
        assert not eigh(A).eigenvectors.requires_grad


# --------------------------------------------------------------------------------------------------
# Settings and threads are as before


def seen_by_a_new_thread():
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        return executor.submit(torch.get_num_threads).result()


@pytest.fixture
def pool(monkeypatch):
    """A pool that has not started yet."""
    fresh = parallel._Pool()
    monkeypatch.setattr(parallel, "_POOL", fresh)
    return fresh


def alive():
    return [thread for thread in threading.enumerate() if thread.name.startswith("rootpool")]


def test_settings_of_the_caller_and_of_new_threads_do_not_change(threads, pool):
    threads(2)
    with concurrent.futures.ThreadPoolExecutor(1) as another:
        another.submit(torch.set_num_threads, 5).result()  # the default of threads to come
        eigh(matrices.random_symmetric(64, 64, 64))
        assert torch.get_num_threads() == 2
        assert seen_by_a_new_thread() == 5


def test_a_larger_pool_takes_the_place_of_the_smaller(threads, pool):
    before = alive()
    for count in (2, 4, 3, 2):
        threads(count)
        eigh(matrices.random_symmetric(64, 64, 64))
    gc.collect()
    deadline = time.monotonic() + PATIENCE
    while len(set(alive()) - set(before)) > 4:  # the two of the first pool end by themselves
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert len(set(alive()) - set(before)) == 4


def test_work_within_a_worker_does_not_wait_for_workers(threads, pool):
    threads(2)
    A = definite(16, 70, 70)
    expected, found = sqrtm(A), []

    def work(piece):
        torch.set_num_threads(2)  # as somebody's transform might
        found.append(sqrtm(A))

    caller = threading.Thread(target=lambda: run_pieces(work, even_cuts(8, 8)), daemon=True)
    caller.start()
    caller.join(PATIENCE)
    assert len(found) == 8
    for Q in found:
        assert_same_to_rounding(Q, expected)


def test_without_new_threads_the_caller_does_the_work(threads, pool, monkeypatch):
    A = definite(16, 70, 70)
    expected = sqrtm(A)
    threads(3)
    before, start = set(alive()), threading.Thread.start
    allowed = [True, True, False]

    def limited(thread):
        if not allowed.pop(0):
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", limited)
        run_pieces(lambda piece: None, even_cuts(4, 4))
    assert torch.get_num_threads() == 3
    for thread in set(alive()) - before:  # those that did start are not left waiting
        thread.join(PATIENCE)
    assert set(alive()) <= before
    assert_same_to_rounding(sqrtm(A), expected)
    assert len(set(alive()) - before) == 3, "and the next time it starts"


def test_eight_python_threads_at_once_each_with_its_own_setting(threads, pool):
    A = definite(12, 70, 70)
    threads(1)
    expected = root_and_gradient(A)
    found, counts = [], []

    def run(number):
        torch.get_num_threads()  # a thread takes the default at its first question, over what was set
        # Settings change under way, and the pool grows meanwhile.
        for count in (1 + number % 4, 1 + number // 2):
            torch.set_num_threads(count)
            found.append(root_and_gradient(A))
            counts.append(torch.get_num_threads() == count)

    callers = [threading.Thread(target=run, args=(k,), daemon=True) for k in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(PATIENCE)
    assert counts == [True] * 16
    for results in found:
        assert_same(A, results, expected)
    assert torch.get_num_threads() == 1
