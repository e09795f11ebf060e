"""The switch for checks of values: what it skips, where it reaches, and what it costs to have them."""

import threading

import pytest
import torch

import matrices
from fake_cuda import waits_of_a_step
from rootpool.linalg import Degenerate, eigh, inv_sqrtm, logm, skip_checks, sqrtm, svd
from rootpool.linalg.checks import checks_enabled
from tolerances import assert_same_to_rounding

STEPS = {
    "sqrtm": lambda A: (sqrtm(A),),
    "inv_sqrtm": lambda A: (inv_sqrtm(A),),
    "logm": lambda A: (logm(A),),
    "eigh": lambda A: eigh(A, rule=Degenerate()),
    "svd": svd,
}


@pytest.mark.parametrize("name", STEPS)
def test_without_checks_nothing_waits_for_values(name):
    A = matrices.random_definite(3, 5, 5)
    assert all(count > 0 for count in waits_of_a_step(STEPS[name], A))
    with skip_checks():
        assert waits_of_a_step(STEPS[name], A) == (0, 0)


@pytest.mark.parametrize("count", [1, 2])
def test_only_what_would_be_an_error_changes_and_in_workers_too(count, threads):
    threads(count)
    A = matrices.random_definite(64, 40, 40)
    A[5] *= -1
    with pytest.raises(torch.linalg.LinAlgError, match=r"A\[5\]"):
        sqrtm(A)
    with skip_checks():
        Q = sqrtm(A)
    assert Q[5].isnan().all()
    assert_same_to_rounding(Q[:5], sqrtm(A[:5]))


def test_backward_follows_the_forward_into_another_thread():
    A = (1e-250 * torch.eye(2, dtype=torch.float64)).requires_grad_()
    with skip_checks():
        Z = inv_sqrtm(A)
    raised = []

    def backward():  # as autograd does for an accelerator: a thread without the caller's context
        try:
            Z.sum().backward()
        except torch.linalg.LinAlgError as error:
            raised.append(error)

    thread = threading.Thread(target=backward)
    thread.start()
    thread.join()
    assert not raised
    assert not A.grad.isfinite().any()
    with pytest.raises(torch.linalg.LinAlgError, match="overflowed"):
        inv_sqrtm(A).sum().backward()
    with skip_checks():
        inv_sqrtm(A).sum().backward()  # the backward inside counts as well


def test_the_choice_is_the_callers_alone_and_ends_with_the_context():
    seen = []
    with skip_checks(), skip_checks(False):
        assert not checks_enabled(), "False leaves it as it is"
        thread = threading.Thread(target=lambda: seen.append(checks_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]
    assert checks_enabled()


def test_inside_a_compiled_function_it_is_allowed_and_does_nothing():
    @torch.compile(fullgraph=True, backend="eager")
    def root(A):
        with skip_checks():
            return sqrtm(A)

    A = matrices.random_definite(3, 3)
    assert torch.allclose(root(A), sqrtm(A))
