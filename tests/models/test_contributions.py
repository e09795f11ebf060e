"""The logit as a sum over positions, against a network whose logit is known by hand."""

import pytest
import torch
from torch import nn

from rootpool.models import create_model
from rootpool.models.contributions import contributions


@pytest.mark.parametrize("method", ["exact", "isqrt-cov", "svd-trunc", "gap"])
@pytest.mark.parametrize("reduction", [0, 6])
def test_positions_add_up_to_the_logit(method, reduction):
    torch.manual_seed(0)
    reduction = None if method == "gap" else reduction
    model = create_model("patchnet", method, num_classes=4, reduction=reduction).double().eval()
    images = torch.randn(3, 1, 28, 28, dtype=torch.float64)
    classes = torch.tensor([0, 2, 3])
    found = contributions(model, images, classes)
    assert found.shape == (3, 7, 7)
    logits = (model(images) - model.classifier.bias).gather(1, classes[:, None])[:, 0]
    assert torch.allclose(found.sum((1, 2)), logits, rtol=1e-6, atol=1e-9)
    assert not found.requires_grad


def test_averages_are_what_each_position_says():
    torch.manual_seed(0)
    model = create_model("patchnet", "gap", num_classes=4).eval()
    images = torch.randn(2, 1, 28, 28)
    features = model.forward_features(images)
    by_hand = torch.einsum("bchw,c->bhw", features, model.classifier.weight[1]) / 49
    found = contributions(model, images, torch.tensor([1, 1]))
    assert torch.allclose(found, by_hand, atol=1e-6)


def test_tokens_and_branches():
    model = create_model(
        "vit_tiny_patch16_224", "exact", num_classes=3, reduction=8, img_size=64
    ).eval()
    assert contributions(model, torch.randn(1, 3, 64, 64), torch.tensor([2])).shape == (1, 16)
    model.pool = nn.Flatten()
    with pytest.raises(ValueError, match="covariances or averages, got Flatten"):
        contributions(model, torch.randn(1, 3, 64, 64), torch.tensor([2]))


def test_branches_are_added():
    torch.manual_seed(0)
    model = create_model("resnet10t", "exact", num_classes=3, reduction=8, tokens="class+patches")
    model = model.double().eval()
    images = torch.randn(2, 3, 64, 64, dtype=torch.float64)
    found = contributions(model, images, torch.tensor([0, 2]))
    logits = (model(images) - model.classifier.bias)[[0, 1], [0, 2]]
    assert torch.allclose(found.sum((1, 2)), logits, rtol=1e-6)
