"""Networks of timm and torchvision with whitening in the place of their batch norms."""

import copy

import pytest
import timm
import torch
import torchvision
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from rootpool.models import create_model
from rootpool.nn import Whitening, replace_batch_norm

NETWORKS = {
    "timm efficientnet": lambda: timm.create_model("test_efficientnet", num_classes=5),
    "torchvision": lambda: torchvision.models.resnet18(num_classes=5),
    "covariance pooling": lambda: create_model("test_resnet", "exact", 5, reduction=8),
}


@pytest.mark.parametrize("method", ["exact", "newton", "cholesky"])
@pytest.mark.parametrize("name", NETWORKS)
def test_replace_then_train(name, method):
    torch.manual_seed(0)
    images, labels = torch.randn(4, 3, 64, 64), torch.tensor([0, 1, 2, 3])
    model = NETWORKS[name]()
    model(images)  # statistics
    before = copy.deepcopy(model).eval()
    count = sum(isinstance(module, _BatchNorm) for module in model.modules())
    replace_batch_norm(model, 4, method)  # there are 16 values per channel at the end
    layers = [module for module in model.modules() if isinstance(module, Whitening)]
    assert len(layers) == count > 0
    assert not any(isinstance(module, _BatchNorm) for module in model.modules())
    if method != "newton":
        expected = before(images)
        assert torch.allclose(model.eval()(images), expected, rtol=1e-3, atol=1e-4)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model.train()(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert min(losses[1:]) < losses[0]
    assert layers[0].num_batches_tracked == 6
