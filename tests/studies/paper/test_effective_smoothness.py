"""Effective smoothness, by a loop over copies of a model."""

import copy
import math

import pytest
import torch
from torch import nn

from rootpool.nn import CovariancePool
from studies.paper.effective_smoothness import effective_smoothness, loss_of


@pytest.mark.parametrize(
    ("H", "x"), [(torch.eye(2), torch.zeros(2)), (torch.full((2, 2), math.inf), torch.ones(2))]
)
def test_no_direction_and_broken_gradients_are_nan(H, x):
    assert math.isnan(effective_smoothness(lambda p: p["x"] @ H @ p["x"] / 2, {"x": x}))


def net(method):
    """What could be left changed: batch norm, dropout, a frozen parameter."""
    layers = (
        nn.Conv2d(3, 6, 3),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        CovariancePool(6, method),
        nn.Dropout(),
    )
    layers[0].bias.requires_grad_(False)
    return nn.Sequential(*layers, nn.Linear(21, 4))


def by_brute_force(model, batch, steps, seed):
    """Copy the model for every step, move the parameters in place, call backward."""

    def gradients(model):
        torch.manual_seed(seed)
        model.zero_grad()
        nn.functional.cross_entropy(model(batch[0]), batch[1]).backward()
        return [p.grad.clone() for p in model.parameters() if p.requires_grad]

    def flat(tensors):
        return torch.cat([t.flatten() for t in tensors]).double()

    here = gradients(copy.deepcopy(model))
    ratios = []
    for t in steps:
        moved = copy.deepcopy(model)
        with torch.no_grad():
            for p, g in zip([p for p in moved.parameters() if p.requires_grad], here, strict=True):
                p.sub_(t * g)
        ratios.append(float((flat(gradients(moved)) - flat(here)).norm() / (t * flat(here).norm())))
    return max(ratios)


@pytest.mark.parametrize("method", ["exact", "svd-pade", "isqrt-cov"])
@pytest.mark.parametrize("training", [True, False])
def test_against_brute_force_and_nothing_has_changed(method, training):
    torch.manual_seed(0)
    model, steps = net(method).train(training), (0.01, 0.1)
    batch = torch.randn(4, 3, 8, 8), torch.tensor([0, 1, 2, 3])
    before = copy.deepcopy(model.state_dict())
    torch.manual_seed(7)
    state = torch.get_rng_state()
    got = effective_smoothness(*loss_of(model, batch), steps)
    assert torch.equal(torch.get_rng_state(), state)
    assert model.training == training
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    assert all(p.grad is None for p in model.parameters())
    assert got == pytest.approx(by_brute_force(model, batch, steps, seed=7), rel=1e-4)
