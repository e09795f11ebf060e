"""Functions that solve whole problems: values and gradients in many digits, and under transformations."""

import pytest
import torch

import oracles
from matrices import relative_error, symmetric
from spectral_losses import LOSSES
from tolerances import allowed

CASES = [(name, kind) for name, loss in LOSSES.items() for kind in loss.inputs]
losses = pytest.mark.parametrize("name", LOSSES)


def of_symmetric(loss):
    """Through the symmetric part where the function asks for symmetric input."""
    if not loss.symmetric:
        return loss.ours
    return lambda *inputs: loss.ours(*map(symmetric, inputs))


def gradients(loss, inputs):
    inputs = [A.clone().requires_grad_() for A in inputs]
    value = loss(*inputs)
    return value.detach(), torch.autograd.grad(value, inputs)


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_value_and_gradient_to_the_last_digits(name, kind):
    loss, inputs = LOSSES[name], LOSSES[name].inputs[kind]
    value, got = gradients(loss.ours, inputs)
    with oracles.mpmath.workdps(80):
        wanted = float(loss.digits(*map(oracles.digits, inputs)))
    size = max(abs(wanted), *(A.abs().max() for A in inputs))
    assert abs(value.item() - wanted) <= allowed(torch.float64, 6) * size
    expected = oracles.gradient(loss.digits, *inputs, symmetric=loss.symmetric)
    for g, e in zip(got, expected, strict=True):
        assert (g - e).norm() <= allowed(torch.float64, 6) * max(e.norm(), 1)
    # In float32 it is another matrix: compare with ours, right in float64, at just that one.
    single = [A.float() for A in inputs]
    wanted, expected = gradients(loss.ours, [A.double() for A in single])
    value, got = gradients(loss.ours, single)
    assert abs(value.double() - wanted) <= allowed(torch.float32, 6) * size
    for g, e in zip(got, expected, strict=True):
        assert (g.double() - e).norm() <= allowed(torch.float32, 6) * max(e.norm(), 1)


@losses
def test_derivatives_by_differences(name):
    loss = LOSSES[name]
    for kind, inputs in loss.inputs.items():
        if kind == "close":
            continue  # differences would see the gap
        inputs = [A.clone().requires_grad_() for A in inputs]
        assert torch.autograd.gradcheck(of_symmetric(loss), inputs)
    inputs = [A.clone().requires_grad_() for A in loss.inputs["generic"]]
    assert torch.autograd.gradgradcheck(of_symmetric(loss), inputs)


@losses
def test_batches_vmap_and_functional_derivatives(name):
    loss = LOSSES[name]
    inputs = [
        torch.stack([A, 1.5 * A, A + 0.1 * A.square().mean()]) for A in loss.inputs["generic"]
    ]
    alone = [gradients(loss.ours, [A[k] for A in inputs])[1] for k in range(3)]
    places = tuple(range(len(inputs)))
    mapped = torch.vmap(torch.func.grad(loss.ours, places))(*inputs)
    for k in range(3):
        for got, want in zip(mapped, alone[k], strict=True):
            assert relative_error(got[k], want) < 1e-11


@losses
def test_autocast_computes_in_float32(name):
    loss = LOSSES[name]
    inputs = [A.float() for A in loss.inputs["generic"]]
    with torch.autocast("cpu", torch.bfloat16):
        inside = loss.ours(*inputs)
    assert inside.dtype == torch.float32
    assert torch.allclose(inside, loss.ours(*inputs), rtol=1e-5)
