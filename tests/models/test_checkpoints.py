"""Files of ours and of the two public repositories, which are written here as they write them."""

import os
import pickle
import re
from dataclasses import dataclass

import pytest
import torch
import torchvision
from safetensors.torch import save_file
from torch import nn

import matrices
from rootpool.models import create_model, load_checkpoint, read_tensors, save_checkpoint
from rootpool.models import files as files_module
from rootpool.models.foreign import build_network, three_parts
from rootpool.nn import CovariancePool, Exact, Method, SVDTrunc

CLASSES = 3


def images(*shape, seed=0):
    return matrices.random(*shape, dtype=torch.float32, seed=seed)


# --------------------------------------------------------------------------------------------------
# Their networks, by their names and with the plainest pooling


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


@pytest.mark.parametrize("norm", [True, False])
def test_foreign_alexnets(tmp_path, norm):
    torch.manual_seed(0)
    network = settled(three_part_alexnet(norm), 96)
    path = tmp_path / "checkpoint.pth.tar"
    torch.save(as_their_main_saves(network, "alexnet"), path)
    model = load_checkpoint(path, pool="mpn-cov")
    assert (model.spec.name, model.spec.options) == ("paper/alexnet", {"norm": norm})
    assert_same(model, network, 96)


def test_arch_tells_the_stride_and_an_option_overrides_it(tmp_path):
    path = tmp_path / "checkpoint.pth.tar"
    torch.save(as_their_main_saves(three_part_resnet(), "mpncovresnet50"), path)
    assert load_checkpoint(path).spec.options == {"last_stride": 1}
    assert load_checkpoint(path, last_stride=2).spec.options == {"last_stride": 2}


def test_into_a_given_network_and_the_old_form_of_files(tmp_path):
    torch.manual_seed(0)
    network = settled(three_part_resnet(torchvision.models.resnet18), 64)
    path = tmp_path / "checkpoint.pth"
    old = {k: v for k, v in network.state_dict().items() if "num_batches_tracked" not in k}
    torch.save(old, path, _use_new_zipfile_serialization=False)
    model = create_model("torchvision/resnet18", "exact", CLASSES, reduction=8)
    assert load_checkpoint(path, model) is model
    assert_same(model, network, 64)
    with pytest.raises(ValueError, match=r"no AlexNet, ResNet-50 or ResNet-101; make the network"):
        load_checkpoint(path)


@pytest.mark.parametrize(
    ("reduced", "width", "expected"),
    [
        (256, 32896, "CovariancePool"),  # as their scripts make it
        (None, 32896, "CovariancePool"),  # as the paper has it
        (None, 9216, "FlatPool"),  # vanilla
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
        model = build_network(parts, "svd-pade", None, mpncovresnet=False)
    assert type(model.pool).__name__ == expected
    assert model.pool.out_features == model.classifier[0].in_features == width
    assert (getattr(model.pool, "channels", None) == 256) is (expected == "CovariancePool")


def test_resnet101_and_a_plain_resnet_by_shape():
    with torch.device("meta"):
        parts, inner = three_parts(torchvision.models.resnet101().state_dict())
        model = build_network(parts, "exact", None, mpncovresnet=inner)
    assert model.spec.name == "paper/resnet101"
    assert model.spec.options == {"last_stride": 2}
    assert str(model.pool.method) == "GlobalAverage()"
    assert model.num_classes == 1000


# --------------------------------------------------------------------------------------------------
# Our own form


@pytest.mark.parametrize("suffix", ["pt", "safetensors"])
def test_round_trip(tmp_path, suffix):
    torch.manual_seed(0)
    model = create_model("patchnet", "isqrt-cov", 18, reduction=8, norm=False)
    model.pool.method = SVDTrunc(bound=1e8)
    path = tmp_path / f"patches.{suffix}"
    save_checkpoint(model, path, {"classes": "brick grass"})
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    again = load_checkpoint(path)
    x = images(3, 1, 28, 28)
    assert torch.equal(again(x), model(x))
    assert again.pool.method == SVDTrunc(bound=1e8)
    assert again.spec.options == {"norm": False}
    assert read_tensors(path)[1]["classes"] == "brick grass"
    assert (
        load_checkpoint(path, pool="svd-pade").pool.method == CovariancePool(1, "svd-pade").method
    )


def test_weights_do_not_depend_on_the_method(tmp_path):
    states = []
    for method in ("exact", "svd-newton"):
        torch.manual_seed(0)
        path = tmp_path / f"{method}.safetensors"
        save_checkpoint(create_model("patchnet", method, 4), path)
        states.append(read_tensors(path)[0])
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])


def test_a_pooling_of_ones_own_has_to_be_given(tmp_path):
    model = create_model("patchnet", CovariancePool(64, reduction=4), 5)
    path = tmp_path / "own.pt"
    save_checkpoint(model, path)
    with pytest.raises(ValueError, match="does not say how its network was made; make it yourself"):
        load_checkpoint(path)
    other = create_model("patchnet", CovariancePool(64, reduction=4), 5)
    load_checkpoint(path, other)
    assert torch.equal(other.classifier.weight, model.classifier.weight)


@dataclass(frozen=True)
class Halved(Method):
    def __call__(self, P):
        return P / 2


@pytest.mark.parametrize(
    ("pool", "options"), [(Halved(), {}), ("exact", {"act_layer": nn.ReLU, "reduction": 4})]
)
def test_what_no_text_can_say(tmp_path, pool, options):
    model = create_model("resnet18" if options else "patchnet", pool, 4, **options)
    path = tmp_path / "model.pt"
    with pytest.raises(TypeError, match=r"cannot be written to a file \(.*model\.spec = None"):
        save_checkpoint(model, path)
    assert not path.exists()
    model.spec = None
    save_checkpoint(model, path)
    assert load_checkpoint(path, model) is model


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "model.", "model._orig_mod."])
def test_prefixes_of_wrappers(tmp_path, prefix):
    model = create_model("patchnet", "exact", 4)
    path = tmp_path / "wrapped.ckpt"
    torch.save({"state_dict": {prefix + k: v for k, v in model.state_dict().items()}}, path)
    other = load_checkpoint(path, create_model("patchnet", "exact", 4))
    assert torch.equal(other.classifier.weight, model.classifier.weight)


def test_other_classes_start_a_new_last_layer(tmp_path):
    model = create_model("patchnet", "exact", 10)
    path = tmp_path / "ten.safetensors"
    save_checkpoint(model, path)
    tuned = load_checkpoint(path, num_classes=4)
    assert tuned.num_classes == 4
    kept = [key for key in model.state_dict() if not key.startswith("classifier.")]
    assert all(torch.equal(tuned.state_dict()[key], model.state_dict()[key]) for key in kept)

    four = create_model("patchnet", "exact", 4)
    with pytest.raises(
        ValueError, match=r"has 10 classes, the network 4; with num_classes=4 the la"
    ):
        load_checkpoint(path, four)
    load_checkpoint(path, four, num_classes=4)
    assert torch.equal(four.backbone.body[0].weight, model.backbone.body[0].weight)
    same = load_checkpoint(path, num_classes=10)
    assert torch.equal(same.classifier.weight, model.classifier.weight)


def test_a_failed_write_leaves_the_file_before(tmp_path, monkeypatch):
    path = tmp_path / "model.pt"
    save_checkpoint(create_model("patchnet", "exact", 4), path)
    before = path.read_bytes()

    def full_disk(content, file):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files_module.torch, "save", full_disk)
    with pytest.raises(OSError, match="No space left"):
        save_checkpoint(create_model("patchnet", "exact", 4), path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["model.pt"]


# --------------------------------------------------------------------------------------------------
# What is refused


def test_unmatched_names_are_listed_and_nothing_is_loaded(tmp_path):
    model = create_model("patchnet", "exact", 4, reduction=8)
    state = model.state_dict()
    state["backbone.extra"] = torch.zeros(1)
    state["classifier.weight"] = torch.zeros(4, 7)
    del state["backbone.body.0.weight"], state["pool.reduction.1.running_mean"]
    path = tmp_path / "other.safetensors"
    save_file(state, path)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    listed = (
        "does not fit the network. missing from the file: backbone.body.0.weight, "
        "pool.reduction.1.running_mean; unknown to the network: backbone.extra; "
        "of another shape: classifier.weight (4, 7) for (4, 36)"
    )
    with pytest.raises(ValueError, match=re.escape(listed)):
        load_checkpoint(path, model)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_unmatched_names_of_a_foreign_file_are_listed(tmp_path):
    network = three_part_resnet()
    state = network.state_dict()
    del state["representation.conv_dr_block.1.bias"], state["features.7.2.conv3.weight"]
    state["features.11.weight"] = torch.zeros(2)
    path = tmp_path / "checkpoint.pth.tar"
    torch.save(state, path)
    listed = (
        "missing from the file: backbone.body.layer4.2.conv3.weight, pool.reduction.1.bias; "
        "unknown to the network: features.11.weight"
    )
    with pytest.raises(ValueError, match=re.escape(listed)):
        load_checkpoint(path)


class RunsCode:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


@pytest.mark.parametrize("zipped", [True, False])
def test_pickled_code_is_refused_and_not_executed(tmp_path, zipped):
    marker = tmp_path / "executed"
    state = create_model("patchnet", "exact", 4).state_dict()
    path = tmp_path / "evil.pth"
    torch.save(
        {"state_dict": state, "extra": RunsCode(marker)},
        path,
        _use_new_zipfile_serialization=zipped,
    )
    for load in (load_checkpoint, lambda path: create_model("resnet18", weights=path)):
        with pytest.raises(
            ValueError, match="does not hold weights alone, and nothing else is load"
        ):
            load(path)
    assert not marker.exists()
    torch.load(path, weights_only=False)  # the file is what it should be
    assert marker.exists()


def test_a_plain_pickle_is_refused(tmp_path):
    marker = tmp_path / "executed"
    path = tmp_path / "evil.pkl"
    path.write_bytes(pickle.dumps(RunsCode(marker), protocol=2))
    with pytest.raises(ValueError, match="does not hold weights alone"):
        load_checkpoint(path)
    assert not marker.exists()


@pytest.mark.parametrize("suffix", ["pt", "safetensors"])
@pytest.mark.parametrize("kept", [0, 5, 2000])
def test_truncated_files(tmp_path, suffix, kept):
    path = tmp_path / f"model.{suffix}"
    save_checkpoint(create_model("patchnet", "exact", 4), path)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(
        ValueError, match=r"is damaged or no file of weights|not hold weights alone"
    ):
        load_checkpoint(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([torch.zeros(2)], "holds a list, not tensors by name"),
        ({"state_dict": {"epoch": 3}}, "holds no tensors by name"),
        (
            {"conv.weight": torch.zeros(2)},
            r"known forms .* begins with conv.weight\. Weights of a ba",
        ),
        (
            {"features.0.weight": torch.zeros(4, 3, 3, 3), "classifier.weight": torch.zeros(2, 4)},
            "no AlexNet, ResNet-50 or ResNet-101",
        ),
        ({"features.0.weight": torch.zeros(64, 3, 11, 11)}, "the file has no classifier"),
        (
            {
                "features.0.weight": torch.zeros(64, 3, 11, 11),
                "classifier.0.weight": torch.zeros(2, 77),
            },
            r"takes 77 features, which is no triangle \(32896\), matrix \(65536\) or average \(256\)",
        ),
    ],
)
def test_files_of_something_else(tmp_path, content, message):
    path = tmp_path / "model.pt"
    torch.save(content, path)
    with pytest.raises(ValueError, match=message):
        load_checkpoint(path)


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no file .*nowhere\.pt"):
        load_checkpoint(tmp_path / "nowhere.pt")
