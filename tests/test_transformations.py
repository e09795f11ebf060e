"""The table of functions and transformations: what has a tick works, what has a dash is refused."""

import pytest
import torch

from matrices import random_symmetric
from transformations import COMPILED, COMPILED_PAIRS, FUNCTIONS, PAIRS, TRANSFORMATIONS, outcome

CELLS = [(name, column) for name in FUNCTIONS for column in (*TRANSFORMATIONS, *PAIRS)]
CELLS += [(name, column) for name in COMPILED for column in COMPILED_PAIRS]


@pytest.mark.parametrize(
    ("name", "transformation"),
    [
        pytest.param(*cell, marks=[pytest.mark.slow] * cell[1].startswith("compile"))
        for cell in CELLS
    ],
)
def test_function_under_transformation(name, transformation):
    row = FUNCTIONS[name]
    assert outcome(row, transformation) == (row.refusal(transformation) is None)


# One of each machine, at a tie where the derivative of torch itself would be NaN.
AT_TIES = ("sqrtm", "powm(A, tensor)", "eigh: eigenvalues", "covariance_pool('exact')")


@pytest.mark.parametrize("name", AT_TIES)
def test_forward_mode_inside_a_compiled_function_is_an_error_or_right(name):
    row = FUNCTIONS[name]
    A = 2 * torch.eye(3, dtype=torch.float64) if row.symmetric else row.sample()
    V = random_symmetric(3, 3) if row.symmetric else row.sample().flip(-1)
    push = lambda A: torch.func.jvp(row.call, (A,), (V,))[1]  # noqa: E731
    torch._dynamo.reset()
    with pytest.raises(Exception, match=r"forward-mode derivatives .* inside torch\.compile; take"):
        torch.compile(push, fullgraph=True, backend="eager")(A)
    torch._dynamo.reset()
    assert torch.allclose(torch.compile(push, backend="eager")(A), push(A))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_jit_trace_records_derivatives_or_refuses(name):
    """With an example that needs a gradient; without one it records values alone."""
    row = FUNCTIONS[name]
    A = row.sample()
    if row.refusal("export"):
        with pytest.raises(RuntimeError, match=row.refusal("export").error):
            torch.jit.trace(row.call, A, check_trace=False)
        return
    traced = torch.jit.trace(row.call, A, check_trace=False)
    assert torch.allclose(traced(A), row.call(A), rtol=1e-13, atol=1e-13)
    A.requires_grad_()
    pools = tuple(f"covariance_pool('{method}')" for method in ("isqrt-cov", "minimax", "polar"))
    if not (name == "covariance" or name.startswith(("newton_schulz", *pools))):
        with pytest.raises(RuntimeError, match="recorded values without their derivatives"):
            traced(A).sum().backward()
    if name.startswith(("bures", "frechet", "null_vectors", "powm(A, tensor)", pools[-1])):
        with pytest.raises(RuntimeError, match="cannot record derivatives"):
            torch.jit.trace(row.call, A)
        return
    got = torch.jit.trace(row.call, A, check_trace=False)(A)
    expected = row.call(A)
    gradients = (torch.autograd.grad(F.square().sum(), A)[0] for F in (got, expected))
    assert torch.allclose(*gradients, rtol=1e-12, atol=1e-12)
