import pytest
import torch
from torch import nn

from rootpool.models import create_model, parameter_groups


def names_of(model, groups):
    """Which parameters each group has, by name."""
    found = {id(p): name for name, p in model.named_parameters()}
    return {group["name"]: {found[id(p)] for p in group["params"]} for group in groups}


def test_rates_of_the_paper():
    model = create_model("paper/resnet50", "exact", 2)
    groups = parameter_groups(model)
    assert {group["name"]: group["lr"] for group in groups} == {
        "backbone": 1.2e-3,
        "pool": 1.2e-3,  # "6e-3 for the fully-connected layer and 1.2e-3 for the other layers"
        "classifier": 6e-3,
    }
    members = names_of(model, groups)
    assert members["classifier"] == {"classifier.weight", "classifier.bias"}
    assert members["pool"] == {
        "pool.reduction.0.weight",
        "pool.reduction.1.weight",
        "pool.reduction.1.bias",
    }
    everything = [p for group in groups for p in group["params"]]
    assert {id(p) for p in everything} == {id(p) for p in model.parameters()}
    assert len(everything) == len(list(model.parameters()))


def test_rates_act():
    torch.manual_seed(0)
    model = create_model("patchnet", "exact", 3, reduction=8)
    before = {key: p.detach().clone() for key, p in model.named_parameters()}
    optimizer = torch.optim.SGD(parameter_groups(model, lr=0.5, backbone_lr=0.25, pool_lr=0.125))
    nn.functional.cross_entropy(model(torch.rand(4, 1, 28, 28)), torch.arange(4) % 3).backward()
    optimizer.step()
    for key, p in model.named_parameters():
        rate = {"classifier": 0.5, "backbone": 0.25, "pool": 0.125}[key.split(".")[0]]
        assert torch.allclose(p, before[key] - rate * p.grad, rtol=1e-5, atol=1e-7), key


def test_frozen_parameters_are_left_out():
    model = create_model("patchnet", "exact", 3, reduction=8)
    model.backbone.requires_grad_(False)
    model.classifier.bias.requires_grad_(False)
    members = names_of(model, parameter_groups(model))
    assert members.keys() == {"pool", "classifier"}
    assert members["classifier"] == {"classifier.weight"}


@pytest.mark.parametrize("tokens", ["patches", "class+patches"])
def test_weight_decay_spares_norms_biases_and_what_timm_names(tokens):
    options = {"depth": 1, "reduction": 4, "tokens": tokens}
    model = create_model("vit_tiny_patch16_224", num_classes=2, **options)
    groups = parameter_groups(model, decay_norms=False)
    spared = {p for group in groups if group.get("weight_decay") == 0 for p in group["params"]}
    assert model.backbone.body.pos_embed in spared
    assert all((p.dim() <= 1) == (p in spared) for p in model.classifier.parameters())
    grouped = [id(p) for group in groups for p in group["params"]]
    assert sorted(grouped) == sorted(id(p) for p in model.parameters())
