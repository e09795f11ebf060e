import copy

import pytest
import timm
import torch

from rootpool.models import Stages, create_model, load_checkpoint, save_checkpoint
from rootpool.nn import Branch, Length, MatrixPower, set_method

TINY, VIT = "test_resnet", "vit_tiny_patch16_224"


def network(name="resnet18", **options):
    torch.manual_seed(0)
    return timm.create_model(name, num_classes=0, global_pool="", **options)


def images(size=64, batch=2):
    return torch.randn(batch, 3, size, size, generator=torch.Generator().manual_seed(1))


def load_from(model, other, prefix):
    state = other.state_dict().items()
    model.load_state_dict({name.removeprefix(prefix): value for name, value in state})


def hooked(model, names, x):
    """What the modules give in an ordinary forward, seen by hooks: another way to the same maps."""
    seen = {}
    handles = [
        model.get_submodule(name).register_forward_hook(
            lambda _module, _args, out, name=name: seen.__setitem__(name, out.clone())
        )
        for name in names
    ]
    seen["last"] = model(x)
    for handle in handles:
        handle.remove()
    return seen


@pytest.mark.parametrize(
    ("name", "stages"),
    [
        ("resnet18", ["layer1", "layer3.1.bn1", "layer4"]),
        ("tf_efficientnet_lite0", ["blocks.4", "blocks.5", "bn2"]),
        ("convnext_atto", ["stages.1"]),
    ],
)
@pytest.mark.parametrize("training", [False, True])
def test_maps_are_those_of_the_modules(name, stages, training):
    model = network(name).train(training)
    expected = hooked(copy.deepcopy(model), stages, images())
    backbone = Stages(model, [*stages, "last"], image_size=64)
    assert backbone.training == training
    maps = backbone(images())
    assert list(maps) == [*stages, "last"]
    for stage, features in maps.items():
        assert torch.allclose(features, expected[stage], rtol=1e-4, atol=1e-5), stage
        assert features.shape[1] == backbone.channels[stage]


def test_what_no_stage_needs_is_cut_off_and_statistics_are_left_alone():
    model = network().train()
    before = copy.deepcopy(model.state_dict())
    backbone = Stages(model, ["layer2"], image_size=64)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    names = [name for name, _ in backbone.named_parameters()]
    assert any("layer2" in name for name in names)
    assert not any("layer3" in name for name in names)
    backbone(images())["layer2"].sum().backward()
    assert all(parameter.grad is not None for parameter in backbone.parameters())


@pytest.mark.parametrize(
    ("name", "stages", "error", "message"),
    [
        (TINY, ["layer9"], ValueError, r"unknown module of ResNet 'layer9'; did you mean layer\d"),
        (TINY, [], ValueError, r"one or more different names, got \(\)"),
        (TINY, ["layer1", "layer1"], ValueError, r"one or more different names, got \('layer1', "),
        (TINY, "layer1", TypeError, r"list of names, got 'layer1'; write \['layer1'\]"),
        (VIT, ["blocks.3"], ValueError, r"'blocks.3' does not give a feature map .* got \(1, 197"),
    ],
)
def test_stages_that_are_not_there(name, stages, error, message):
    with pytest.raises(error, match=message):
        Stages(network(name), stages, image_size=224)


# --------------------------------------------------------------------------------------------------
# Networks with branches

BRANCHES = [
    Branch("layer2", MatrixPower(0.3), 4, Length(2.0)),
    Branch("average", "gap", scaling=Length(3.0, power=0.5)),
    Branch("layer2", "covariance"),
    Branch("last", "exact", 5),
]


def test_branches_pool_the_maps_of_their_stages():
    torch.manual_seed(0)
    model = create_model(TINY, BRANCHES, num_classes=3).eval()
    plain = network(TINY).eval()
    load_from(plain, model.backbone, "network.body.")
    seen = hooked(plain, ["layer2"], images(64))
    seen["average"] = seen["last"].mean((2, 3), keepdim=True)
    stages = [branch.stage for branch in BRANCHES]
    vectors = [pool(seen[stage]) for stage, pool in zip(stages, model.pool.pools, strict=True)]
    assert torch.allclose(model.classifier(torch.cat(vectors, 1)), model(images(64)), atol=1e-5)
    lengths = [float(vector.norm(dim=1).mean().detach()) for vector in vectors[:2]]
    assert lengths == pytest.approx([2, 3])
    assert [tuple(vector.shape) for vector in vectors] == [(2, 10), (2, 96), (2, 1176), (2, 15)]
    assert model.num_features == sum(model.backbone.channels.values())


def test_a_file_describes_its_branches(tmp_path):
    model, file = create_model(TINY, BRANCHES, num_classes=3).eval(), "model.safetensors"
    save_checkpoint(model, tmp_path / file)
    again = load_checkpoint(tmp_path / file).eval()
    assert again.spec == model.spec
    assert torch.equal(again(images(64)), model(images(64)))
    set_method(model, "svd-pade")  # as a hybrid training does
    save_checkpoint(model, tmp_path / file)
    asked = {"SVDPade(degree=100)": {}, "Exact()": {"pool": "exact"}}
    for method, options in asked.items():
        found = load_checkpoint(tmp_path / file, **options).spec.pool
        assert [str(branch.pool) for branch in found] == [method, "gap", method, method]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reduction": 4}, "reduction is for pools given by name; set it in the pool itself"),
        ({"scaling": Length(1.0), "tokens": "class+patches"}, "tokens, scaling is for pools given"),
        ({"pool": [Branch("layer1", "exakt")]}, "unknown method 'exakt'; did you mean exact"),
    ],
)
def test_branches_that_cannot_be(options, message):
    with pytest.raises(ValueError, match=message):
        create_model(TINY, **{"pool": [Branch("layer1")], "num_classes": 2, **options})
