import copy

import pytest
import timm
import torch
from torch import nn

from rootpool.models import PooledClassifier, Stages
from rootpool.nn import BranchPool, CovariancePool, Length


def network(name="resnet18", **options):
    torch.manual_seed(0)
    return timm.create_model(name, num_classes=0, global_pool="", **options)


def images(size=64, batch=2):
    return torch.randn(batch, 3, size, size, generator=torch.Generator().manual_seed(1))


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
        ("mobilenetv3_small_050", ["blocks.2"]),
        ("convnext_atto", ["stages.1"]),
        ("regnetx_002", ["s2"]),
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


def test_channels_last_maps_are_transposed():
    model = network("swin_tiny_patch4_window7_224", img_size=64).eval()
    expected = hooked(model, ["layers.1"], images())
    backbone = Stages(model, ["layers.1", "last"], image_size=64)
    assert backbone.channels == {"layers.1": 192, "last": 768}
    for stage, features in backbone(images()).items():
        torch.testing.assert_close(features, expected[stage].movedim(-1, 1), rtol=1e-4, atol=1e-5)


def test_what_no_stage_needs_is_cut_off():
    backbone = Stages(network(), ["layer2"], image_size=64)
    names = [name for name, _ in backbone.named_parameters()]
    assert any("layer2" in name for name in names)
    assert not any("layer3" in name for name in names)
    backbone(images())["layer2"].sum().backward()
    assert all(parameter.grad is not None for parameter in backbone.parameters())


def test_construction_leaves_running_statistics_alone():
    model = network().train()
    before = copy.deepcopy(model.state_dict())
    Stages(model, ["layer2", "last"], image_size=64)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def two_stage_head(channels):
    return BranchPool(
        (stage, CovariancePool(c, reduction=8, output="isometric", scaling=Length(4.0)))
        for stage, c in channels.items()
    )


@pytest.mark.parametrize("freeze", [False, True])
def test_training_end_to_end_and_frozen(freeze):
    # (a zero at the end of each block would leave the rest of it without a gradient)
    backbone = Stages(network(zero_init_last=False), ["layer1", "layer2"], image_size=64)
    before = copy.deepcopy(backbone.state_dict())
    pool = two_stage_head(backbone.channels)
    model = PooledClassifier(backbone, pool, nn.Linear(pool.out_features, 2))
    if freeze:
        model.freeze("backbone")
    model.train()
    optimizer = torch.optim.SGD((p for p in model.parameters() if p.requires_grad), 0.1)
    nn.functional.cross_entropy(model(images()), torch.tensor([0, 1])).backward()
    assert all(
        p.grad.abs().sum() > 0 for part in (model.pool, model.classifier) for p in part.parameters()
    )
    optimizer.step()
    after = backbone.state_dict()
    unchanged = [name for name in before if torch.equal(before[name], after[name])]
    assert len(unchanged) == len(before) if freeze else not unchanged


def test_stages_of_timm_by_number():
    torch.manual_seed(0)
    backbone = timm.create_model("resnet18", features_only=True, out_indices=(1, 2)).eval()
    pool = two_stage_head(dict(enumerate(backbone.feature_info.channels()))).eval()
    maps = backbone(images())
    expected = torch.cat([one(features) for one, features in zip(pool.pools, maps, strict=True)], 1)
    torch.testing.assert_close(pool(maps), expected)


def test_copies_are_independent():
    backbone = Stages(network().eval(), ["layer1"], image_size=64)
    twin = copy.deepcopy(backbone)
    with torch.no_grad():
        next(twin.parameters()).zero_()
    assert not torch.equal(twin(images())["layer1"], backbone(images())["layer1"])


@pytest.mark.parametrize(
    ("stages", "error", "message"),
    [
        (["layer9"], ValueError, r"unknown module of ResNet 'layer9'; did you mean layer\d"),
        ([], ValueError, r"one or more different names, got \(\)"),
        (["layer1", "layer1"], ValueError, r"one or more different names, got \('layer1', "),
        ("layer1", TypeError, r"list of names, got 'layer1'; write \['layer1'\]"),
    ],
)
def test_stages_that_are_not_there(stages, error, message):
    with pytest.raises(error, match=message):
        Stages(network(), stages, image_size=64)


def test_stage_without_a_map():
    model = network("vit_tiny_patch16_224")
    with pytest.raises(ValueError, match=r"'blocks.3' does not give a feature map .* got \(1, 197"):
        Stages(model, ["blocks.3"])
