"""Checkpoints of the two public repositories, which are written here as they write them."""

import re

import pytest
import torch
import torchvision
from torch import nn

import matrices
from rootpool.models import create_model, load_checkpoint
from rootpool.models.foreign import build_network, three_parts
from rootpool.nn import Exact

CLASSES = 3


def images(*shape, seed=0):
    return matrices.random(*shape, dtype=torch.float32, seed=seed)


def triangle_of_root(features):
    """Their covariance, root and upper triangle, in row-major order, spelled out."""
    X = features.double().flatten(2)
    M = X.shape[-1]
    centring = torch.eye(M, dtype=X.dtype) / M - torch.ones(M, M, dtype=X.dtype) / M**2
    lam, U = torch.linalg.eigh(X @ centring @ X.mT)
    Q = (U * lam.clamp_min(0).sqrt().unsqueeze(1)) @ U.mT
    d = X.shape[1]
    entries = [Q[:, i, j] for i in range(d) for j in range(i, d)]
    return torch.stack(entries, 1).float()


class Representation(nn.Module):
    def __init__(self, channels, reduced):
        super().__init__()
        self.conv_dr_block = nn.Sequential(
            nn.Conv2d(channels, reduced, 1, bias=False), nn.BatchNorm2d(reduced), nn.ReLU()
        )

    def forward(self, x):
        return triangle_of_root(self.conv_dr_block(x))


class ThreeParts(nn.Module):
    def __init__(self, features, representation, classifier):
        super().__init__()
        self.features = features
        self.representation = representation
        self.classifier = classifier

    def forward(self, x):
        return self.classifier(self.representation(self.features(x)).flatten(1))


class Flat(torchvision.models.ResNet):
    """mpncovresnet: no stride in the last stage, a reduction beside the stages."""

    def __init__(self, reduced=8):
        super().__init__(torchvision.models.resnet.Bottleneck, [3, 4, 6, 3])
        del self.avgpool, self.fc
        self.inplanes = 1024
        self.layer4 = self._make_layer(torchvision.models.resnet.Bottleneck, 512, 3, stride=1)
        self.layer_reduce = nn.Conv2d(2048, reduced, 1, bias=False)
        self.layer_reduce_bn = nn.BatchNorm2d(reduced)
        self.layer_reduce_relu = nn.ReLU()
        self.fc = nn.Linear(reduced * (reduced + 1) // 2, CLASSES)

    def forward(self, x):
        *features, last = self.children()
        return last(triangle_of_root(nn.Sequential(*features)(x)))


def three_part_resnet(make=torchvision.models.resnet50, reduced=8):
    original = make()
    channels = original.fc.in_features
    return ThreeParts(
        nn.Sequential(*list(original.children())[:-2]),
        Representation(channels, reduced),
        nn.Linear(reduced * (reduced + 1) // 2, CLASSES),
    )


def three_part_mpncovresnet():
    *features, last = Flat().children()
    network = ThreeParts(nn.Sequential(*features), nn.Identity(), last)
    network.representation.forward = triangle_of_root
    return network


def three_part_alexnet(norm):
    layers = []
    for layer in torchvision.models.alexnet().features[:-1]:
        layers += [layer]
        if norm and isinstance(layer, nn.Conv2d):
            layers += [nn.BatchNorm2d(layer.out_channels)]
    dropout = [] if norm else [nn.Dropout()]
    classifier = [*dropout, nn.Linear(36, 4096), nn.ReLU(), *dropout, nn.Linear(4096, 4096)]
    classifier += [nn.ReLU(), nn.Linear(4096, CLASSES)]
    return ThreeParts(nn.Sequential(*layers), Representation(256, 8), nn.Sequential(*classifier))


def as_their_main_saves(network, arch):
    """With DataParallel around the features, and the state of the training."""
    network.features = nn.DataParallel(network.features)
    state = network.state_dict()
    network.features = network.features.module
    optimizer = torch.optim.SGD(network.parameters(), 0.1)
    return {
        "epoch": 60,
        "arch": arch,
        "state_dict": state,
        "best_prec1": torch.tensor(77.2),
        "optimizer": optimizer.state_dict(),
    }


# Their network, how it is saved, and the stride of its last stage.
FOREIGN = {
    "parts": (three_part_resnet, lambda net: as_their_main_saves(net, "resnet50"), 2),
    "parts of mpncovresnet": (three_part_mpncovresnet, nn.Module.state_dict, 1),
    "flat, distributed": (
        Flat,
        lambda net: {"state_dict": {f"module.{k}": v for k, v in net.state_dict().items()}},
        1,
    ),
}


def settled(network, size):
    """In evaluation mode, with the statistics of a batch: activations of ordinary size."""
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = 1.0
    with torch.no_grad():
        network.train()(images(4, 3, size, size, seed=1))
    return network.eval()


def assert_same(model, network, size):
    x = images(2, 3, size, size)
    with torch.no_grad():
        got, expected = model.eval()(x), network(x)
    assert expected.abs().max() > 1e-3
    assert matrices.relative_error(got, expected) < 1e-4


@pytest.mark.parametrize("form", FOREIGN)
def test_foreign_resnets(tmp_path, form):
    torch.manual_seed(0)
    make, save, last_stride = FOREIGN[form]
    network = settled(make(), 64)
    path = tmp_path / "checkpoint.pth.tar"
    torch.save(save(network), path)
    model = load_checkpoint(path)
    assert model.spec.name == "paper/resnet50"
    assert model.spec.options == {"last_stride": last_stride}
    assert model.spec.num_classes == CLASSES
    assert model.pool.method == Exact()
    assert_same(model, network, 64)
    if form == "parts":  # the name tells the stride, and an option overrides it
        torch.save(save(network) | {"arch": "mpncovresnet50"}, path)
        assert load_checkpoint(path).spec.options == {"last_stride": 1}
        assert load_checkpoint(path, last_stride=2).spec.options == {"last_stride": 2}


@pytest.mark.parametrize("norm", [True, False])
def test_foreign_alexnets(tmp_path, norm):
    torch.manual_seed(0)
    network = settled(three_part_alexnet(norm), 96)
    path = tmp_path / "checkpoint.pth.tar"
    torch.save(as_their_main_saves(network, "alexnet"), path)
    model = load_checkpoint(path, pool="mpn-cov")
    assert (model.spec.name, model.spec.options) == ("paper/alexnet", {"norm": norm})
    assert_same(model, network, 96)


def test_into_a_given_network_and_the_old_form_of_files(tmp_path):
    torch.manual_seed(0)
    network = settled(three_part_resnet(torchvision.models.resnet18), 64)
    path = tmp_path / "checkpoint.pth"
    old = {k: v for k, v in network.state_dict().items() if "num_batches_tracked" not in k}
    torch.save(old, path, _use_new_zipfile_serialization=False)
    model = create_model("torchvision/resnet18", "exact", CLASSES, reduction=8)
    assert load_checkpoint(path, model) is model
    assert_same(model, network, 64)
    del old["representation.conv_dr_block.1.bias"], old["features.7.1.conv2.weight"]
    torch.save(old | {"features.11.weight": torch.zeros(2)}, path)
    listed = (
        "missing from the file: backbone.body.layer4.1.conv2.weight, pool.reduction.1.bias; "
        "unknown to the network: features.11.weight"
    )
    with pytest.raises(ValueError, match=re.escape(listed)):
        load_checkpoint(path, model)


@pytest.mark.parametrize(
    ("reduced", "width", "expected"),
    [
        (256, 32896, "CovariancePool"),  # as their scripts make it
        (None, 32896, "CovariancePool"),  # as the paper has it
        (None, 9216, "FlatPool"),  # the original network
        (256, 65536, "CovariancePool"),  # whole matrices
    ],
)
def test_heads_of_alexnet_by_shape(reduced, width, expected):
    with torch.device("meta"):
        parts = three_part_alexnet(norm=True).state_dict()
        parts = {key: value for key, value in parts.items() if "conv_dr" not in key}
        parts["classifier.0.weight"] = torch.empty(4096, width)
        if reduced:
            parts["representation.conv_dr_block.0.weight"] = torch.empty(reduced, 256, 1, 1)
        model = build_network(parts, None, None, mpncovresnet=False)
    assert type(model.pool).__name__ == expected
    assert model.pool.out_features == model.classifier[0].in_features == width
    assert (getattr(model.pool, "channels", None) == 256) is (expected == "CovariancePool")


def test_resnet101_and_a_plain_resnet_by_shape():
    with torch.device("meta"):
        parts, inner = three_parts(torchvision.models.resnet101().state_dict())
        model = build_network(parts, None, None, mpncovresnet=inner)
    assert model.spec.name == "paper/resnet101"
    assert model.spec.options == {"last_stride": 2}
    assert model.pool.method == "gap"
    assert model.num_classes == 1000


def test_averages_do_not_become_covariances(tmp_path):
    path = tmp_path / "resnet50.pth"
    torch.save(torchvision.models.resnet50(num_classes=2).state_dict(), path)
    assert load_checkpoint(path, pool="gap").pool.method == "gap"
    with pytest.raises(ValueError, match=r"takes averages of 2048 channels, so that pool='exact'"):
        load_checkpoint(path, pool="exact")
    torch.manual_seed(0)
    advised = create_model("paper/resnet50", "exact", 2, weights=path)
    kept = torch.load(path)["layer4.2.conv3.weight"]
    assert torch.equal(advised.backbone.body.layer4[2].conv3.weight, kept)
