"""Effective smoothness: a quadratic whose smoothness is known, and a loop over a copy of a model."""

import copy
import math

import pytest
import torch
from torch import nn

import matrices
from rootpool.nn import CovariancePool
from studies.paper.effective_smoothness import effective_smoothness


class Quadratic(nn.Module):
    """x^T H x / 2 at a point: the gradient is H x, and its change along itself is H H x."""

    def __init__(self, H, x):
        super().__init__()
        self.x = nn.Parameter(x.clone())
        self.H = H

    def forward(self):
        return self.x @ self.H @ self.x / 2


def value(model, _batch):
    return model()


@pytest.mark.parametrize("beta", [0.5, 3.0, 1e6])
def test_an_isotropic_quadratic_has_its_curvature(beta):
    model = Quadratic(beta * torch.eye(4).double(), matrices.random(4))
    got = effective_smoothness(model, value, None, steps=(1e-3, 1.0))
    assert got["beta"] == pytest.approx(beta, rel=1e-9)
    assert got["gradient_norm"] == pytest.approx(beta * float(model.x.detach().norm()))


def test_along_an_eigenvector_and_along_another_direction():
    H = torch.diag(torch.tensor([1.0, 7.0]).double())
    along = Quadratic(H, torch.tensor([0.0, 2.0]).double())
    assert effective_smoothness(along, value, None)["beta"] == pytest.approx(7.0)
    between = Quadratic(H, torch.tensor([1.0, 1.0]).double())
    g = torch.tensor([1.0, 7.0]).double()
    expected = float((H @ g).norm() / g.norm())
    assert effective_smoothness(between, value, None)["beta"] == pytest.approx(expected)


def test_the_largest_over_the_steps_is_taken():
    """Kinked gradient: |x| has slope 1 right of 0 and -1 left of it; only a long step crosses."""

    class Kink(nn.Module):
        def __init__(self):
            super().__init__()
            self.x = nn.Parameter(torch.tensor(1.0))

        def forward(self):
            return self.x.abs()

    got = effective_smoothness(Kink(), value, None, steps=(0.5, 2.0, 4.0))
    assert got["beta"] == pytest.approx(1.0)  # a change of 2 over a distance of 2
    assert got["step"] == 2.0


class Net(nn.Module):
    """Everything that could be left changed: batch norm, dropout, a frozen and an unused parameter."""

    def __init__(self, method="exact"):
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3)
        self.norm = nn.BatchNorm2d(6)
        self.drop = nn.Dropout(0.5)
        self.pool = CovariancePool(6, method)
        self.head = nn.Linear(21, 4)
        self.unused = nn.Parameter(torch.ones(2))
        self.conv.bias.requires_grad_(False)

    def forward(self, x):
        return self.head(self.drop(self.pool(self.norm(self.conv(x)).relu())))


def cross_entropy(model, batch):
    return nn.functional.cross_entropy(model(batch[0]), batch[1])


def batch():
    g = torch.Generator().manual_seed(1)
    return torch.randn(4, 3, 8, 8, generator=g), torch.tensor([0, 1, 2, 3])


def by_brute_force(model, data, steps, seed):
    """Copy the model for every step, move the parameters in place, call backward."""

    def gradients(model):
        torch.manual_seed(seed)
        model.zero_grad()
        cross_entropy(model, data).backward()
        return [
            torch.zeros_like(p) if p.grad is None else p.grad.clone()
            for p in model.parameters()
            if p.requires_grad
        ]

    def flat(tensors):
        return torch.cat([t.flatten() for t in tensors]).double()

    here = gradients(copy.deepcopy(model))
    ratios = []
    for t in steps:
        moved = copy.deepcopy(model)
        with torch.no_grad():
            for p, g in zip([p for p in moved.parameters() if p.requires_grad], here, strict=True):
                p.sub_(t * g)
        change = flat(gradients(moved)) - flat(here)
        ratios.append(float(change.norm() / (t * flat(here).norm())))
    return max(ratios)


@pytest.mark.parametrize("method", ["exact", "svd-pade", "isqrt-cov"])
@pytest.mark.parametrize("training", [True, False])
def test_against_brute_force_and_nothing_has_changed(method, training):
    torch.manual_seed(0)
    model = Net(method).train(training)
    data, steps = batch(), (0.01, 0.1)
    cross_entropy(model, data).backward()  # gradients that must stay
    before = copy.deepcopy(model.state_dict())
    grads = {n: None if p.grad is None else p.grad.clone() for n, p in model.named_parameters()}
    torch.manual_seed(7)
    state = torch.get_rng_state()
    got = effective_smoothness(model, cross_entropy, data, steps=steps)
    assert torch.equal(torch.get_rng_state(), state)
    assert model.training == training
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    for name, p in model.named_parameters():
        assert p.requires_grad == (name != "conv.bias")
        assert (p.grad is None) == (grads[name] is None)
        assert p.grad is None or torch.equal(p.grad, grads[name])
    assert got["beta"] == pytest.approx(by_brute_force(model, data, steps, seed=7), rel=1e-4)


def test_works_where_gradients_are_off():
    torch.manual_seed(0)
    model = Net().eval()
    expected = effective_smoothness(model, cross_entropy, batch())
    with torch.no_grad():
        again = effective_smoothness(model, cross_entropy, batch())
    assert again == pytest.approx(expected, rel=1e-4)


def test_a_loss_that_is_a_module_is_not_part_of_the_model():
    class Loss(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.tensor(2.0))

        def forward(self, model, _batch):
            return self.scale * model()

    loss, model = Loss(), Quadratic(torch.eye(2).double(), matrices.random(2))
    assert effective_smoothness(model, loss, None)["beta"] == pytest.approx(2.0)
    assert loss.scale.grad is None


def test_no_direction_and_broken_gradients_are_nan():
    flat = Quadratic(torch.eye(2).double(), torch.zeros(2).double())
    assert math.isnan(effective_smoothness(flat, value, None)["beta"])
    broken = Quadratic(torch.full((2, 2), math.inf).double(), torch.ones(2).double())
    assert math.isnan(effective_smoothness(broken, value, None)["beta"])


def test_wrong_arguments():
    model = Quadratic(torch.eye(2).double(), matrices.random(2))
    for steps in ((), (0.0,), (1.0, math.inf)):
        with pytest.raises(ValueError, match="steps must be positive and finite"):
            effective_smoothness(model, value, None, steps=steps)
    with pytest.raises(ValueError, match=r"must be one number, got \(2,\)"):
        effective_smoothness(model, lambda m, _: m.x, None)
    model.requires_grad_(False)
    with pytest.raises(ValueError, match="no parameter of the model requires a gradient"):
        effective_smoothness(model, value, None)
