"""Every function under tools of torch: vectorised derivatives, counters, tracers, devices, autocast."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import matrices
from matrices import relative_error
from rootpool.linalg import (
    Truncated,
    canonical_correlations,
    eigh,
    newton_schulz,
    powm,
    sqrtm,
)
from rootpool.nn import (
    BoxCox,
    CovariancePool,
    Length,
    MatrixPower,
    Whitening,
    covariance_pool,
)
from transformations import FUNCTIONS, _gradient, _loss

functions = pytest.mark.parametrize("name", FUNCTIONS)
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


SURROUNDINGS = {
    "meta as the default device": (lambda: torch.device("meta"), torch.float64, 1e-12),
    "a counter of operations": (lambda: FlopCounterMode(display=False), torch.float64, 1e-12),
    # bfloat16 would be wrong by 1e-2.
    "autocast": (lambda: torch.autocast("cpu", torch.bfloat16), torch.float32, 1e-5),
}


@functions
@pytest.mark.parametrize("inside", SURROUNDINGS)
def test_gradients_do_not_depend_on(inside, name):
    context, dtype, tolerance = SURROUNDINGS[inside]
    row = FUNCTIONS[name]
    A, loss = row.sample(dtype), _loss(row)
    with context() as entered:
        got = _gradient(loss, A)
    assert got.device == A.device
    expected = _gradient(loss, A)
    # The polar factor of a definite matrix is the identity: its gradient is rounding.
    assert (got - expected).norm() < tolerance * max(1.0, float(expected.norm()))
    if isinstance(entered, FlopCounterMode):
        assert entered.get_total_flops() > 0


@pytest.mark.parametrize("method", ["exact", "newton", "cholesky"])
def test_backward_of_whitening_inside_autocast_is_in_float32(method):
    X = matrices.random(16, 3, dtype=torch.float32)
    loss = lambda X: Whitening(3, method=method)(X).sin().sum()  # noqa: E731
    with torch.autocast(X.device.type, torch.bfloat16):
        got = _gradient(loss, X)
    assert relative_error(got, _gradient(loss, X)) < 1e-4


def test_second_derivatives_inside_autocast_are_in_float32():
    A = matrices.random_definite(3, 3, dtype=torch.float32)

    def second(A):
        A = A.detach().requires_grad_()
        (g,) = torch.autograd.grad(newton_schulz(A).root.sin().sum(), A, create_graph=True)
        return torch.autograd.grad(g.sin().sum(), A)[0]

    with torch.autocast(A.device.type, torch.bfloat16):
        got = second(A)
    assert relative_error(got, second(A)) < 1e-5


class Of(torch.nn.Module):
    def __init__(self, call):
        super().__init__()
        self.call = call

    def forward(self, A):
        return self.call(A)


# Rows whose own lambda asks the symbol for its parts or its device before it calls the function.
ASKED_FIRST = ("distance", "wasserstein", "correlations", "tensor")


@pytest.mark.parametrize(
    "name", [name for name in FUNCTIONS if not any(part in name for part in ASKED_FIRST)]
)
def test_symbolic_traces_are_refused_with_advice(name):
    with pytest.raises(TypeError, match=r"got Proxy; torch\.fx\.symbolic_trace has no shapes"):
        torch.fx.symbolic_trace(Of(FUNCTIONS[name].call))


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
