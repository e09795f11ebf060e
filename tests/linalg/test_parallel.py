"""The pool of threads: same bits, no hang, and nothing left changed, whatever happens around it."""

import concurrent.futures
import gc
import threading
import time
import weakref

import pytest
import torch

import matrices
from rootpool.linalg import eigh, parallel, sqrtm, svd
from rootpool.linalg._threads import own_setters
from rootpool.linalg.parallel import even_cuts, run_pieces

PATIENCE = 120  # seconds; a test that needs them all has found a deadlock


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
    eigh(matrices.random_symmetric(64, 64, 64))
    assert torch.get_num_threads() == 2
    assert seen_by_a_new_thread() == 2


def test_starting_the_pool_does_not_touch_the_default_even_for_an_instant(
    threads, pool, monkeypatch
):
    if not own_setters():
        pytest.skip("the setters of this build's OpenMP and MKL cannot be reached")
    threads(2)
    monkeypatch.setattr(torch, "set_num_threads", lambda count: pytest.fail("it was touched"))
    seen = []
    run_pieces(lambda piece: seen.append(torch.get_num_threads()), even_cuts(4, 4))
    assert seen == [1] * 4


def test_where_it_must_be_touched_it_is_put_back(threads, pool, monkeypatch):
    monkeypatch.setattr("rootpool.linalg._threads.own_setters", lambda: ())
    threads(2)
    with concurrent.futures.ThreadPoolExecutor(1) as another:
        another.submit(torch.set_num_threads, 5).result()  # besides, the default is 5 from now on
        A = matrices.random_symmetric(64, 70, 70)
        expected = eigh(A[:1]).eigenvectors[0]
        assert torch.equal(eigh(A).eigenvectors[0], expected)
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
    A = matrices.random_symmetric(16, 70, 70)
    expected = eigh(A).eigenvectors
    same, left = [], []

    def work(piece):
        left.append(torch.get_num_threads())
        torch.set_num_threads(2)  # as somebody's transform might
        same.append(torch.equal(eigh(A).eigenvectors, expected))

    caller = threading.Thread(target=lambda: run_pieces(work, even_cuts(8, 8)), daemon=True)
    caller.start()
    caller.join(PATIENCE)
    assert same == [True] * 8
    seen = []
    run_pieces(lambda piece: seen.append(torch.get_num_threads()), even_cuts(8, 8))
    assert seen == [1] * 8, "what the work has set does not stay"


def test_without_new_threads_the_caller_does_the_work(threads, pool, monkeypatch):
    A = matrices.random_symmetric(16, 70, 70)
    threads(1)
    expected = eigh(A).eigenvectors
    threads(3)
    before, start = set(alive()), threading.Thread.start
    allowed = [True, True, False]

    def limited(thread):
        if not allowed.pop(0):
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", limited)
        assert torch.equal(eigh(A).eigenvectors, expected)
    assert torch.get_num_threads() == 3
    for thread in set(alive()) - before:  # the two that did start are not left waiting
        thread.join(PATIENCE)
    assert set(alive()) <= before
    assert torch.equal(eigh(A).eigenvectors, expected), "and the next time it starts"
    assert len(set(alive()) - before) == 3


# --------------------------------------------------------------------------------------------------
# Many callers


def test_eight_python_threads_at_once_each_with_its_own_setting(threads, pool):
    A = matrices.random_symmetric(12, 70, 70)
    threads(1)

    def results():
        B = (A @ A.mT).requires_grad_()
        (gradient,) = torch.autograd.grad(sqrtm(B).sin().sum(), B)
        return (*eigh(A), *svd(A), gradient)

    expected = results()
    same, counts = [], []

    def run(number):
        torch.get_num_threads()  # a thread takes the default at its first question, over what was set
        # Changes under way, the pool grows meanwhile.
        for count in (1 + number % 4, 1 + number // 2):
            torch.set_num_threads(count)
            same.append(all(map(torch.equal, results(), expected)))
            counts.append(torch.get_num_threads() == count)

    callers = [threading.Thread(target=run, args=(k,), daemon=True) for k in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(PATIENCE)
    assert same == counts == [True] * 16
    assert torch.get_num_threads() == 1
