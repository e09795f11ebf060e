"""A network of timm, whose batch norms hold activations, with whitening in their place."""

import copy

import pytest
import timm
import torch
from torch.nn.modules.batchnorm import _BatchNorm

from rootpool.nn import Whitening, replace_batch_norm


@pytest.mark.parametrize("method", ["exact", "newton", "cholesky"])
def test_replace_then_train(method):
    torch.manual_seed(0)
    images = torch.randn(4, 3, 64, 64)
    model = timm.create_model("test_efficientnet", num_classes=5)
    model(images)  # statistics
    before = copy.deepcopy(model).eval()
    count = sum(isinstance(module, _BatchNorm) for module in model.modules())
    replace_batch_norm(model, 4, method)  # there are 16 values per channel at the end
    layers = [module for module in model.modules() if isinstance(module, Whitening)]
    assert len(layers) == count > 0
    assert not any(isinstance(module, _BatchNorm) for module in model.modules())
    if method != "newton":
        assert torch.allclose(model.eval()(images), before(images), rtol=1e-3, atol=1e-4)
    model.train()(images).square().mean().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
    assert layers[0].num_batches_tracked == 2
