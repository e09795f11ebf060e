import copy

import pytest
import torch
from torch import nn

import matrices
from rootpool.nn import Whitening, replace_batch_norm


def network():
    """Its batch norms have seen data."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 12, 3),
        nn.BatchNorm2d(12, eps=1e-3, momentum=0.3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(12 * 9, 8),
        nn.BatchNorm1d(8, affine=False),
    )
    for seed in range(3):
        model(images(seed))
    with torch.no_grad():
        model[1].weight.copy_(torch.rand(12) + 1)
        model[1].bias.copy_(torch.randn(12))
    return model


def images(seed=0):
    return matrices.random(6, 3, 5, 5, dtype=torch.float32, seed=seed) * 2 + 1


@pytest.mark.parametrize("method", ["exact", "cholesky"])
def test_the_network_stays_the_same_in_evaluation_and_changes_in_training(method):
    model = network()
    before = copy.deepcopy(model)
    assert replace_batch_norm(model, 6, method) is model
    layer = model[1]
    assert isinstance(layer, Whitening)
    assert (layer.groups, layer.eps, layer.momentum) == (2, 1e-3, 0.3)
    assert layer.num_batches_tracked == 3
    assert not model[5].affine
    assert torch.allclose(model.eval()(images(5)), before.eval()(images(5)), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(model.train()(images(5)), before.train()(images(5)), atol=1e-2)


def test_parameters_stay_the_same_so_an_optimizer_keeps_them():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    weight = model[1].weight
    replace_batch_norm(model)
    assert model[1].weight is weight
    before = weight.detach().clone()
    model(images()).square().sum().backward()
    optimizer.step()
    assert not torch.equal(before, weight)


def test_names_choose_layers_and_shared_ones_stay_shared():
    model = network()
    replace_batch_norm(model, names="1")
    assert isinstance(model[5], nn.BatchNorm1d)
    norm = nn.BatchNorm1d(4)
    shared = replace_batch_norm(nn.Sequential(norm, nn.ReLU(), norm))
    assert shared[0] is shared[2]
    alone = replace_batch_norm(nn.BatchNorm1d(4).double().eval())
    assert isinstance(alone, Whitening)
    assert alone.running_covariance.dtype == torch.float64
    assert not alone.training


def test_groups_are_as_few_as_their_size_allows():
    sizes = {(96, 64): 2, (64, 64): 1, (7, 4): 7, (30, 8): 5}
    for (channels, size), groups in sizes.items():
        assert replace_batch_norm(nn.BatchNorm1d(channels), size).groups == groups
