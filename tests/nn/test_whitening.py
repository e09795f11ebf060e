import pytest
import torch
from torch import nn

import matrices
from rootpool.nn import Whitening


def test_running_statistics_are_those_of_batch_norm_and_used_in_evaluation():
    layer, norm = Whitening(3, momentum=0.3), nn.BatchNorm2d(3, momentum=0.3)
    for seed in range(5):
        X = matrices.random(4, 3, 5, 5, dtype=torch.float32, seed=seed) * 2 + 1
        layer(X), norm(X)
    assert torch.allclose(layer.running_mean, norm.running_mean, atol=1e-6)
    assert torch.allclose(layer.running_covariance.diagonal(), norm.running_var, rtol=1e-5)
    assert layer.num_batches_tracked == 5
    layer.eval()
    X = matrices.random(1, 3, 1, 1, dtype=torch.float32)  # a single position is enough here
    before = layer.running_covariance.clone()
    root = layer(X)
    assert root.shape == X.shape
    assert torch.equal(layer.running_covariance, before)
    lam, U = torch.linalg.eigh(before.double() + layer.eps * torch.eye(3))
    centred = X[0, :, 0, 0].double() - layer.running_mean.double()
    expected = U @ torch.diag(lam.rsqrt()) @ U.mT @ centred
    assert torch.allclose(root[0, :, 0, 0].double(), expected, rtol=1e-5)


def test_the_average_of_all_batches():
    layer, batches = Whitening(3, momentum=None), matrices.random(4, 8, 3, dtype=torch.float32)
    for batch in batches:
        layer(batch)
    assert torch.allclose(layer.running_mean, batches.flatten(0, 1).mean(0), atol=1e-6)
    layer.reset_running_stats()
    assert torch.equal(layer.running_covariance, torch.eye(3))


def test_a_broken_batch_does_not_spoil_the_running_statistics():
    layer = Whitening(4)
    with pytest.raises(ValueError, match="NaN or infinite"):
        layer(torch.full((8, 4), torch.nan))
    assert layer.num_batches_tracked == 0
    assert layer.eval()(torch.ones(2, 4)).isfinite().all()


def test_state_dict_round_trip():
    layer, other = Whitening(3), Whitening(3)
    layer(matrices.random(4, 3, 5, dtype=torch.float32))
    other.load_state_dict(layer.state_dict())
    X = matrices.random(2, 3, 4, dtype=torch.float32, seed=1)
    assert torch.equal(layer.eval()(X), other.eval()(X))


def test_a_batch_beyond_the_range_leaves_the_running_statistics():
    layer = Whitening(3)
    layer(torch.randn(8, 3))
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    with pytest.raises(
        torch.linalg.LinAlgError, match=r"the running covariance overflowed .* for features"
    ):
        layer(torch.randn(8, 3) * 1e25)  # 1e50 in float64, but the statistics are float32
    assert all(torch.equal(value, before[name]) for name, value in layer.state_dict().items())


def test_reset_parameters_gives_memory_of_any_content_the_values_of_a_new_layer():
    with torch.device("meta"):
        layer = Whitening(6, groups=2, affine=True)
    layer = layer.to_empty(device="cpu")
    for tensor in layer.state_dict().values():
        tensor.fill_(7)
    layer.reset_parameters()
    fresh = Whitening(6, groups=2, affine=True).state_dict()
    assert all(torch.equal(fresh[name], value) for name, value in layer.state_dict().items())
