"""A backbone in two parts: together they are the whole, forward and backward."""

import pytest
import torch
from torch import nn

from rootpool.models import Backbone, create_model
from rootpool.models.cut import split_at_frozen
from rootpool.nn import Branch

NETWORKS = [("resnet18", "layer2"), ("tf_efficientnet_lite0", "blocks.5.1"), ("patchnet", "1")]


@pytest.mark.parametrize(("name", "frozen"), NETWORKS)
@pytest.mark.parametrize("training", [False, True])
def test_the_parts_are_the_whole(name, frozen, training):
    torch.manual_seed(0)
    model = create_model(name, num_classes=3, reduction=8).double()
    model.freeze(frozen)
    model.train(training)
    first, rest = split_at_frozen(model.backbone)
    assert first.stages == (f"body.{frozen}",)
    channels = 1 if name == "patchnet" else 3
    images = torch.randn(4, channels, 64, 64, dtype=torch.float64)

    def gradients(features):
        loss = features.square().mean()
        learning = [p for p in model.backbone.parameters() if p.requires_grad]
        return torch.autograd.grad(loss, learning)

    state = {name: value.clone() for name, value in model.state_dict().items()}
    whole = model.backbone(images)
    expected = gradients(whole)
    model.load_state_dict(state)  # running statistics
    with torch.no_grad():
        maps = first(images)
    parts = rest(maps)
    torch.testing.assert_close(parts, whole)
    torch.testing.assert_close(gradients(parts), expected)


@pytest.mark.parametrize("pool", ["exact", [Branch("layer2"), Branch("average", "gap")]])
def test_a_frozen_backbone_leaves_nothing(pool):
    model = create_model("resnet18", pool, num_classes=3).eval()
    model.freeze("backbone")
    first, rest = split_at_frozen(model.backbone)
    images = torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        torch.testing.assert_close(rest(first(images)), model.backbone(images))


def test_where_it_cannot_be_cut():
    class Skip(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Conv2d(3, 3, 1), nn.Conv2d(3, 3, 1)

        def forward(self, x):
            return self.b(self.a(x) + x)

    skip = Backbone(Skip(), 3)
    skip.body.a.requires_grad_(False)
    with pytest.raises(ValueError, match=r"cannot be cut after body\.a"):
        split_at_frozen(skip)
    learning = create_model("resnet18", num_classes=3)
    with pytest.raises(ValueError, match="nothing is frozen"):
        split_at_frozen(learning.backbone)
    several = create_model("resnet18", [Branch("layer2"), Branch("last")], num_classes=3)
    with pytest.raises(ValueError, match=r"several stages .* not all are frozen"):
        split_at_frozen(several.backbone)
