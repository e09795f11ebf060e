"""What people who know timm's models expect of ours."""

import json

import pytest
import timm
import torch
from torch import nn

from rootpool.models import create_model, load_checkpoint, pretrained_input, save_checkpoint
from rootpool.nn import AdaptiveChannelDropout, Branch, Length

TINY = "test_resnet"
IMAGES = torch.randn(3, 3, 64, 64, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def model():
    return create_model(TINY, "exact", 7, reduction=4).eval()


@pytest.mark.parametrize("name", [TINY, "paper/alexnet"])
def test_a_new_last_layer_by_number_of_classes(name, tmp_path):
    model = create_model(name, "isqrt-cov", 5)
    for count in (3, 0, 4):
        model.reset_classifier(count)
        assert model.num_classes == count
        assert model.spec.num_classes == count
    model.reset_classifier(2, global_pool="exact")
    assert model.pool.method.name == "exact"
    save_checkpoint(model, tmp_path / "model.pt")
    again = load_checkpoint(tmp_path / "model.pt")
    assert again.num_classes == 2
    with pytest.raises(ValueError, match="num_classes must be an integer from 0 on, got -1"):
        model.reset_classifier(-1)


def test_options_of_the_pooling_survive_a_file(tmp_path):
    options = {"compute_dtype": torch.float32, "output": "isometric", "scaling": Length(2.0)}
    more = {"drop_rate": 0.25, "channel_dropout": "adaptive"}
    model = create_model(TINY, "exact", 3, reduction=4, **more, **options)
    save_checkpoint(model, tmp_path / "model.pt")
    again = load_checkpoint(tmp_path / "model.pt")
    assert again.spec == model.spec
    assert {name: getattr(again.pool, name) for name in options} == options
    assert again.head_drop.p == 0.25
    assert isinstance(again.pool.channel_dropout, AdaptiveChannelDropout)
    both = create_model("patchnet", "covariance", 3, tokens="class+patches", **more)
    assert sum(isinstance(m, AdaptiveChannelDropout) for m in both.modules()) == 1
    with pytest.raises(ValueError, match="scaling is for pools given by name"):
        create_model(TINY, nn.Identity(), scaling=Length(1.0))


def test_dropout_is_before_the_classifier_and_only_in_training():
    torch.manual_seed(0)
    model = create_model(TINY, "exact", 3, reduction=16, drop_rate=0.5).eval()
    features = model.forward_features(IMAGES)
    kept = model.forward_head(features, pre_logits=True)
    model.head_drop.train()
    dropped = model.forward_head(features, pre_logits=True)
    left = dropped != 0
    assert left.any()
    assert (kept[~left] != 0).any()
    torch.testing.assert_close(dropped[left], 2 * kept[left])
    with pytest.raises(ValueError, match=r"dropout of alexnet belongs to .*use drop_rate=0\.3"):
        create_model("torchvision/alexnet", dropout=0.3)


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "resnet18", "torchvision/resnet18"])
def test_the_images_of_the_pretrained_weights(name):
    model = create_model(name, num_classes=2)
    found = timm.data.resolve_model_data_config(model)
    expected = timm.data.resolve_model_data_config(
        timm.create_model(name.removeprefix("torchvision/"))
    )
    keys = ("mean", "std", "crop_pct", "input_size")
    if name.startswith("torchvision"):
        expected |= {"crop_pct": 0.875}  # timm's weights of this network are others
    assert {key: found[key] for key in keys} == {key: expected[key] for key in keys}
    given = pretrained_input(name)
    assert given["mean"] == list(expected["mean"])
    assert given["resize"] == int(given["crop"] / expected["crop_pct"])


def test_activations_are_recomputed_on_demand(model):
    images = IMAGES.clone().requires_grad_()
    (kept,) = torch.autograd.grad(model(images).sum(), images)
    model.set_grad_checkpointing()
    (again,) = torch.autograd.grad(model(images).sum(), images)
    model.set_grad_checkpointing(False)
    torch.testing.assert_close(again, kept)
    with pytest.raises(ValueError, match="cannot recompute its activations; backbones of timm can"):
        create_model("patchnet").set_grad_checkpointing()


@pytest.mark.parametrize(
    ("name", "last", "frozen", "learning"),
    [
        (TINY, "layer1", "layer1.0.conv1.weight", "layer2.0.conv1.weight"),
        (
            "torchvision/mobilenet_v2",
            "features.1",
            "features.1.conv.0.0.weight",
            "features.2.conv.0.0.weight",
        ),
    ],
)
@pytest.mark.parametrize("branches", [False, True])
def test_first_modules_are_frozen_with_their_statistics(name, last, frozen, learning, branches):
    pool = [Branch("last", reduction=4), Branch("average", "gap")] if branches else "exact"
    model = create_model(name, pool, num_classes=2, reduction=None if branches else 4)
    model.freeze(last)
    prefix = model.backbone.prefix
    body = {key.removeprefix(prefix): p for key, p in model.backbone.named_parameters()}
    assert not body[frozen].requires_grad
    assert body[learning].requires_grad
    norms = [m for m in model.backbone.modules() if isinstance(m, nn.BatchNorm2d)]
    before = norms[0].running_mean.clone()
    model.train()(IMAGES).sum().backward()
    assert torch.equal(norms[0].running_mean, before)
    assert norms[-1].training
    model.unfreeze()
    assert all(p.requires_grad for p in model.parameters())
    assert norms[0].training


def test_models_of_a_hub_are_made_by_timm(tmp_path):
    """A folder stands for the hub: timm reads both in the same way."""
    config = {"architecture": TINY, "num_classes": 9, "pretrained_cfg": {"mean": [0.1, 0.2, 0.3]}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    torch.save(timm.create_model(TINY, num_classes=9).state_dict(), tmp_path / "pytorch_model.bin")
    model = create_model(f"local-dir:{tmp_path}", num_classes=2)
    assert tuple(model.pretrained_cfg["mean"]) == (0.1, 0.2, 0.3)
    save_checkpoint(model, tmp_path / "model.pt")
    assert load_checkpoint(tmp_path / "model.pt").spec.name == TINY  # the hub is not asked again
    assert pretrained_input(f"local-dir:{tmp_path}")["mean"] == [0.1, 0.2, 0.3]


@pytest.mark.parametrize(
    ("name", "until", "channels"),
    [("tf_efficientnet_lite0", "blocks.5", 192), ("swin_tiny_patch4_window7_224", "layers.1", 192)],
)
def test_a_network_that_ends_early(name, until, channels):
    whole = create_model(name, num_classes=3).backbone.eval()
    model = create_model(name, num_classes=3, until=until, reduction=8).eval()
    assert model.num_features == channels
    assert model.spec.options == {"until": until}
    names = set(model.backbone.state_dict())
    assert names < set(whole.state_dict())
    model.backbone.load_state_dict({n: v for n, v in whole.state_dict().items() if n in names})
    kept = []
    whole.body.get_submodule(until).register_forward_hook(lambda *a: kept.append(a[-1]))
    images = torch.randn(2, 3, 224, 224)
    with torch.no_grad():
        whole(images)
        features = model.backbone(images)
    expected = kept[0].flatten(1, 2).mT if "swin" in name else kept[0].flatten(2)
    torch.testing.assert_close(features.flatten(2), expected)
    with pytest.raises(ValueError, match=r"unknown module to end with 'layer9'; did you mean"):
        create_model("resnet18", num_classes=3, until="layer9")
