"""Every function under tools of torch: vectorised derivatives, counters, tracers, devices, autocast."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import matrices
from matrices import relative_error
from rootpool.linalg import Truncated, canonical_correlations, eigh, powm, sqrtm
from rootpool.nn import BoxCox, CovariancePool, Length, MatrixPower, covariance_pool
from transformations import FUNCTIONS, _loss, inside

# One of each kind of derivative; batched derivatives take the same way for all of a kind.
KINDS = [
    *("sqrtm", "powm(A, tensor)", "sqrtm(rule='pade')", "newton_schulz", "eigh: projector"),
    *("eigvalsh", "svd: polar factor", "orthogonalize, tall", "principal_subspace"),
    *("covariance_pool('exact')", "covariance_pool('svd-pade')", "covariance_pool('isqrt-cov')"),
]


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_vectorised_derivatives_of_autograd(name):
    row = FUNCTIONS[name]
    call = (lambda A: row.call((A + A.mH) / 2)) if row.symmetric else row.call
    A, loss = row.sample(), _loss(row)
    assert torch.autograd.gradcheck(call, A.clone().requires_grad_(), check_batched_grad=True)
    jacobian = torch.autograd.functional.jacobian(call, A, vectorize=True)
    assert relative_error(jacobian, torch.func.jacrev(call)(A)) < 1e-12
    if row.refusal("hessian") is None:
        hessian = torch.autograd.functional.hessian(loss, A, vectorize=True)
        assert relative_error(hessian, torch.func.hessian(loss)(A)) < 1e-10


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_default_device_and_a_counter_of_operations_change_nothing(name):
    counter, row = FlopCounterMode(display=False), FUNCTIONS[name]
    twice = None if row.refusal("gradgrad") else 1e-10
    for context in (torch.device("meta"), counter):
        inside(lambda context=context: context, row, torch.float64, 1e-12, twice)
    assert counter.get_total_flops() > 0


# Rows that ask the symbol for its parts or its device themselves, before they call the function.
ASKED_FIRST = ("distance", "wasserstein", "correlations", "tensor", "align", "B=B", "topk_eigh")


@pytest.mark.parametrize(
    "name", [name for name in FUNCTIONS if not any(part in name for part in ASKED_FIRST)]
)
def test_symbolic_traces_are_refused_with_advice(name):
    with pytest.raises(TypeError, match=r"got Proxy; torch\.fx\.symbolic_trace has no shapes"):
        torch.fx.symbolic_trace(lambda A: FUNCTIONS[name].call(A))


def test_a_layer_as_a_leaf_can_be_traced():
    class Tracer(torch.fx.Tracer):
        def is_leaf_module(self, module, name):
            return isinstance(module, CovariancePool) or super().is_leaf_module(module, name)

    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1), CovariancePool(4))
    X = matrices.random(2, 3, 2, 4, dtype=torch.float32)
    traced = torch.fx.GraphModule(model, Tracer().trace(model))
    assert torch.allclose(traced(X), model(X))


# Functions of a matrix, or of features, and of a number that a compiler makes a symbol when it changes.
NUMBERS = {
    "powm": powm,
    "eigenvalue_floor": lambda A, x: sqrtm(A, eigenvalue_floor=x),
    "Truncated": lambda A, x: eigh(A, rule=Truncated(x)).eigenvalues,
    "ridge": lambda A, x: canonical_correlations(A, A.flip(-1) + A.square(), x),
    "MatrixPower": lambda A, x: covariance_pool(A.unsqueeze(0), MatrixPower(x)),
    "BoxCox": lambda A, x: covariance_pool(A.unsqueeze(0), BoxCox(x, ridge=x)),
    "Length": lambda A, x: Length(x)(A),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_that_changes_does_not_break_the_graph(name):
    A, f = matrices.random_definite(3, 3), NUMBERS[name]
    torch._dynamo.reset()
    compiled = torch.compile(f, fullgraph=True, backend="eager")
    for x in (0.3, 0.7, 1.1):
        assert torch.allclose(compiled(A, x), f(A, x))
