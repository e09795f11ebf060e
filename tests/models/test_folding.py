import pytest
import timm
import torch
from torch import nn

from rootpool.models.stages import Stages, fold_norms


def with_statistics(network):
    """Batch norms with statistics and weights of their own, so that to leave one out is seen."""
    generator = torch.Generator().manual_seed(0)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            for tensor in (module.weight.data, module.running_var):
                tensor.copy_(torch.rand(tensor.shape, generator=generator) + 0.5)
            for tensor in (module.bias.data, module.running_mean):
                tensor.copy_(torch.randn(tensor.shape, generator=generator) * 0.1)
    return network


class Shared(nn.Module):
    """A convolution that is used twice, one whose map is used twice, and one without a norm."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3)
        self.second, self.other = nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)

    def forward(self, x):
        x = self.norm(self.first(self.first(x)))
        y = self.second(x)
        return self.other(y) + y


@pytest.mark.parametrize(
    ("name", "stages", "norms"),
    [
        ("tf_efficientnet_lite0", ["blocks.2", "last"], 0),
        ("resnet18", ["layer1.0.conv2", "layer2", "last"], 1),  # its stage needs what is before it
        (Shared, ["last"], 2),
    ],
)
def test_maps_are_the_same_without_the_norms(name, stages, norms):
    if isinstance(name, str):
        network = timm.create_model(name, num_classes=0, global_pool="")
    else:
        network = name()
    original = Stages(with_statistics(network).double(), stages).eval()
    before = {key: value.clone() for key, value in original.state_dict().items()}
    folded = fold_norms(original)
    assert sum(isinstance(module, nn.BatchNorm2d) for module in folded.modules()) == norms
    images = torch.randn(2, 3, 96, 96, dtype=torch.float64)
    with torch.no_grad():
        expected, found = original(images), folded(images)
    for stage in stages:
        torch.testing.assert_close(found[stage], expected[stage], rtol=1e-9, atol=1e-9)
    for key, value in original.state_dict().items():
        assert torch.equal(value, before[key])
