import torch
import torchvision

import matrices
from rootpool.models import create_model


def count(name, pool="exact", num_classes=1000, **options):
    with torch.device("meta"):
        model = create_model(name, pool, num_classes, **options)
    return sum(p.numel() for p in model.parameters())


def layers(module):
    return [type(m).__name__ for m in module.modules() if not list(m.children())]


def test_parameters():
    # torchvision states these two for its own networks, ...
    assert count("paper/resnet50", "gap") == 25_557_032
    assert count("paper/alexnet", "gap", norm=False) == 61_100_840
    # ... and the published files of the reduced networks have 217.3 and 289.9 MB (of 2^20 bytes),
    # with up to half a MB of running statistics.
    for name, megabytes in (("paper/resnet50", 217.3), ("paper/resnet101", 289.9)):
        assert 0 < megabytes - count(name, last_stride=1) * 4 / 2**20 < 0.5


def test_alexnet_of_the_paper():
    with torch.device("meta"):
        model = create_model("paper/alexnet", num_classes=0)
        reduced = create_model("paper/alexnet", reduction=256)  # as the scripts have it
        features = model.forward_features(torch.empty(2, 3, 224, 224))
        hidden = model.forward_head(features)
    assert features.shape == (2, 256, 13, 13)
    step = ["Conv2d", "BatchNorm2d", "ReLU"]
    assert layers(model.backbone) == [*step, "MaxPool2d", *step, "MaxPool2d", *step, *step, *step]
    assert layers(model.pool.reduction) == ["Identity"]  # no reduction: "13 x 13 x 256"
    assert layers(reduced.pool.reduction) == step
    widths = [(m.in_features, m.out_features) for m in reduced.classifier if hasattr(m, "weight")]
    assert widths == [(32896, 4096), (4096, 4096), (4096, 1000)]
    assert (model.num_classes, model.head_hidden_size, hidden.shape) == (0, 32896, (2, 4096))


def test_vanilla_alexnet_is_torchvisions():
    torch.manual_seed(0)
    original = torchvision.models.alexnet(num_classes=3).eval()
    with torch.device("meta"):
        model = create_model("paper/alexnet", "gap", 3, norm=False).eval()
    model.backbone.body.load_state_dict(original.features.state_dict(), assign=True)
    model.classifier.load_state_dict(original.classifier.state_dict(), assign=True)
    x = matrices.random(1, 3, 224, 224, dtype=torch.float32)
    assert torch.allclose(model(x), original(x), rtol=1e-5, atol=1e-6)
