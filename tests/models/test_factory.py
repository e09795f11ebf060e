import importlib
import sys
from functools import partial

import pytest
import timm
import torch
import torchvision
from safetensors.torch import save_file
from torch import nn

import matrices
from rootpool.models import create_model
from rootpool.models.torchvision_backbones import torchvision_backbone
from rootpool.nn import METHODS, CovariancePool, SVDTrunc, covariance_pool

# name -> (options, image size, shape of the map). Small images keep the test short.
NETWORKS = {
    "resnet18": ({}, 64, (512, 2, 2)),
    "convnext_atto": ({}, 64, (320, 2, 2)),
    "vit_tiny_patch16_224": ({"img_size": 64}, 64, (192, 16)),
    "swin_tiny_patch4_window7_224": ({"img_size": 64}, 64, (768, 2, 2)),
    "torchvision/alexnet": ({}, 96, (256, 5, 5)),
    "torchvision/vgg11_bn": ({}, 64, (512, 4, 4)),
    "paper/alexnet": ({}, 96, (256, 5, 5)),
    "paper/resnet50": ({"last_stride": 1}, 64, (2048, 4, 4)),
    "patchnet": ({}, 28, (64, 7, 7)),
    "cifarnet": ({}, 32, (64, 8, 8)),
}


def images(model, size, batch=2):
    channels = model.backbone.input_size[0]
    return matrices.random(batch, channels, size, size, dtype=torch.float32)


def map_by_hand(model, x):
    """What the original network gives before its pooling, with the channels in the second place."""
    body = model.backbone.body
    features = getattr(body, "forward_features", body)(x)
    if features.dim() == 3:
        return features[:, body.num_prefix_tokens :].mT
    return features.movedim(-1, 1) if getattr(body, "output_fmt", "") == "NHWC" else features


@pytest.mark.parametrize("name", NETWORKS)
def test_real_networks(name):
    torch.manual_seed(0)
    options, size, shape = NETWORKS[name]
    model = create_model(name, "exact", 5, reduction=16, **options)
    x = images(model, size, batch=3)
    nn.functional.cross_entropy(model(x), torch.arange(3)).backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.grad.isfinite().all(), key

    model.eval()
    features = map_by_hand(model, x)
    assert features.shape == (3, *shape)
    flat = features.flatten(2).unsqueeze(-1)  # where positions are does not matter to it
    pooled = covariance_pool(model.pool.reduction(flat))
    torch.testing.assert_close(model(x), model.classifier(pooled), rtol=1e-3, atol=1e-4)


class Corners(nn.Module):
    out_features = 6

    def forward(self, features):
        return features[:, :6, 0, 0]


def whole_matrices(features):
    return covariance_pool(features, "isqrt-cov", output="matrix").flatten(1)


@pytest.mark.parametrize(
    ("pool", "expected"),
    [
        *((name, partial(covariance_pool, method=name)) for name in METHODS),
        ("gap", lambda features: features.mean((2, 3))),
        (SVDTrunc(bound=1e8), partial(covariance_pool, method=SVDTrunc(bound=1e8))),
        (CovariancePool(64, "isqrt-cov", output="matrix"), whole_matrices),
        (Corners(), Corners()),
    ],
    ids=[*METHODS, "gap", "a value", "a module", "another module"],
)
def test_pools_by_name_as_values_and_as_modules(pool, expected):
    torch.manual_seed(0)
    model = create_model("patchnet", pool, 18).eval()
    x = torch.rand(2, 1, 28, 28)
    pooled = expected(model.backbone.body(x))
    torch.testing.assert_close(model(x), model.classifier(pooled), rtol=1e-4, atol=1e-5)
    if isinstance(pool, str):
        assert getattr(model.pool.method, "name", model.pool.method) == pool


# One of each kind that torchvision has, but for those tested above and near relatives.
KINDS = ["densenet121", "mobilenet_v3_small", "regnet_y_400mf", "squeezenet1_0", "swin_t"]


@pytest.mark.parametrize("name", KINDS)
def test_kinds_of_torchvision(name):
    """The map is what the original network gives to its own head, seen by a hook."""
    original = torchvision.models.get_model(name).eval()
    backbone = torchvision_backbone(name).eval()
    backbone.body.load_state_dict(original.state_dict(), strict=False)
    x, seen = matrices.random(2, 3, 64, 64, dtype=torch.float32), []
    *_, last = (child for child, _ in backbone.body.named_children() if hasattr(original, child))
    original.get_submodule(last).register_forward_hook(lambda *args: seen.append(args[-1]))
    original(x)
    features = backbone(x)
    # DenseNet's last step is no layer of its own.
    torch.testing.assert_close(features, seen[0].relu() if name == "densenet121" else seen[0])
    assert features.shape[1] == backbone.num_features
    features.square().sum().backward()
    assert all(parameter.grad is not None for parameter in backbone.parameters())


def test_extra_that_is_not_installed(monkeypatch):
    for module in [name for name in sys.modules if name.startswith("rootpool.models")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ImportError, match=r"pip install 'rootpool\[models\]'"):
        importlib.import_module("rootpool.models")


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("resnet18", {"pretrained": True, "in_chans": 1}, True),
        ("torchvision/resnet18", {"weights": "IMAGENET1K_V1"}, "IMAGENET1K_V1"),
        ("paper/resnet50", {"pretrained": True}, "DEFAULT"),
        ("paper/alexnet", {"pretrained": True, "norm": False}, "DEFAULT"),
        ("torchvision/resnet18", {}, None),
    ],
)
def test_pretrained_weights_are_fetched_by_the_libraries(monkeypatch, name, arguments, expected):
    library, make, key = torchvision.models, "get_model", "weights"
    if name == "resnet18":
        library, make, key = timm, "create_model", "pretrained"
    seen, real = [], getattr(library, make)

    def fake(name, **options):
        seen.append(options.pop(key, None))
        return real(name, **options)

    monkeypatch.setattr(library, make, fake)
    create_model(name, "gap", 2, **arguments)
    assert seen[-1] == expected
    assert not any(seen[:-1])


@pytest.mark.parametrize("name", ["resnet18", "torchvision/resnet18"])
def test_local_weights_of_the_original_network(tmp_path, name):
    state, path = torchvision.models.resnet18().state_dict(), tmp_path / "weights.safetensors"
    save_file(state, path)
    model = create_model(name, "exact", 5, reduction=8, weights=str(path))
    loaded = model.backbone.body.state_dict()
    assert set(state) - set(loaded) == {"fc.weight", "fc.bias"}
    assert all(torch.equal(value, state[key]) for key, value in loaded.items())
    del state["layer3.1.conv2.weight"], state["bn1.num_batches_tracked"]
    path = tmp_path / "weights.pt"
    torch.save(state, path)
    with pytest.raises(ValueError, match=rf"are not those of {name}: no layer3.1.conv2.weight$"):
        create_model(name, "exact", 5, weights=path)


GAP, DROP = {"pool": "gap"}, {"channel_dropout": "adaptive"}
PLAIN = "is not a plain sequence of layers; try timm's"
VALUE_ERRORS = {
    "unknown model 'resnet5O'; did you mean .*resnet50": ("resnet5O", {}),
    "'torchvision/alexnett'; did you mean torchvision/alexnet": ("torchvision/alexnett", {}),
    f"torchvision/vit_b_16 {PLAIN} vit_": ("torchvision/vit_b_16", {}),
    f"vit_b_16 {PLAIN} vit_": ("vit_b_16", {}),
    f"googlenet {PLAIN} inception_": ("googlenet", {}),
    "class token, but timm does not say how many of its 197": ("cait_xxs24_224", {}),
    r"cannot be inspected without data \(Tensor.item": ("gemma4_vit_167m", {}),
    "returns a list instead of one feature map": ("efficientvim_m1", {}),
    "unknown method 'svd-padee'; did you mean svd-pade": ("patchnet", {"pool": "svd-padee"}),
    "pool expects 32 channels, but the backbone gives 64": (
        "patchnet",
        {"pool": CovariancePool(32)},
    ),
    r"last_stride must be 2 .* got 3": ("paper/resnet50", {"last_stride": 3}),
    "patchnet has no ImageNet weights": ("patchnet", {"pretrained": True}),
    "no ImageNet weights; use norm=False": ("paper/alexnet", {"pretrained": True}),
    "network has no reduction": ("paper/alexnet", GAP | {"reduction": 8}),
    "network has no channel_dropout": ("paper/alexnet", GAP | DROP),
    "before a covariance, and gap has none": ("patchnet", GAP | DROP),
    "for pools given by name": ("patchnet", {"pool": CovariancePool(64), **DROP}),
    "must be adaptive or None, got 'some'": ("patchnet", {"channel_dropout": "some"}),
    "weights=..., not both": ("resnet18", {"pretrained": True, "weights": "a"}),
}
OTHER_ERRORS = {
    "a pool needs out_features": ("patchnet", {"pool": nn.Flatten()}),
    "patchnet has no option 'stride'; it has norm": ("patchnet", {"stride": 1}),
    "average pooling is pool='gap'": ("resnet18", {"global_pool": "avg"}),
    "no file 'nowhere.pth'": ("resnet18", {"weights": "nowhere.pth"}),
}


@pytest.mark.parametrize("message", [*VALUE_ERRORS, *OTHER_ERRORS])
def test_impossible_models(message):
    name, options = (VALUE_ERRORS | OTHER_ERRORS)[message]
    error = ValueError if message in VALUE_ERRORS else (TypeError, FileNotFoundError)
    with pytest.raises(error, match=message):
        create_model(name, num_classes=2, **options)
