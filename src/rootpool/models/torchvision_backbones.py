"""Backbones by the names of torchvision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torchvision
from torch import Tensor, nn

from rootpool.suggest import unknown_name

from .backbones import Backbone, refuse_missing

TORCHVISION_PREFIX = "torchvision/"
# The children that are not needed for the last feature map.
_HEADS = frozenset({"avgpool", "classifier", "fc", "head", "flatten"})
# What timm says of networks that were trained on ImageNet.
IMAGENET = {
    "mean": (0.485, 0.456, 0.406),
    "std": (0.229, 0.224, 0.225),
    "crop_pct": 0.875,
    "interpolation": "bilinear",
}
# Not a plain sequence of layers (tokens, auxiliary classifiers, nested lists), and what timm has instead.
NO_CHAIN = {"vit_": "vit_*", "inception_v3": "inception_v3"}
NO_CHAIN |= {"googlenet": "inception_*", "maxvit_t": "maxvit_*"}


def torchvision_names() -> list[str]:
    """Names of torchvision's classifiers that are plain sequences of layers, with our prefix.

    >>> "torchvision/alexnet" in torchvision_names()
    True
    """
    return [
        TORCHVISION_PREFIX + name
        for name in torchvision.models.list_models(module=torchvision.models)
        if not name.startswith(tuple(NO_CHAIN))
    ]


def torchvision_backbone(
    name: str,
    *,
    weights: Any = None,
    tensors: Mapping[str, Tensor] | None = None,
    **options: Any,
) -> Backbone:
    """A torchvision classifier by its name, with or without ``torchvision/``, cut before its pooling.

    AlexNet and VGG also lose their last max pooling, which would drop three of four positions. At 224
    pixels that leaves 13 x 13 and 14 x 14 positions, as in fast-MPN-COV.

    Args:
        name: such as ``"torchvision/alexnet"``.
        weights: what ``torchvision.models.get_model`` takes, such as ``"DEFAULT"``.
        tensors: weights under torchvision's names, instead; the head's are left out.
        options: for the model's constructor.
    """
    plain = name.removeprefix(TORCHVISION_PREFIX)
    known = torchvision_names()
    if TORCHVISION_PREFIX + plain not in known:
        for start, instead in NO_CHAIN.items():
            if plain.startswith(start):
                raise ValueError(f"{name} is not a plain sequence of layers; try timm's {instead}")
        listed = "rootpool.models.list_models()"
        raise ValueError(
            unknown_name("torchvision model", TORCHVISION_PREFIX + plain, known, listed)
        )
    body = _cut(torchvision.models.get_model(plain, weights=weights, **options))
    _refuse_lost_dropout(body, plain, options.get("dropout"))
    shapes = {key: value.to("meta") for key, value in body.state_dict().items()}
    features = torch.func.functional_call(body, shapes, torch.empty(2, 3, 224, 224, device="meta"))
    if tensors is not None:
        refuse_missing(body.state_dict().keys() - tensors.keys(), name)
        body.load_state_dict({key: tensors[key] for key in body.state_dict() if key in tensors})
    return Backbone(body, features.shape[1], pretrained_cfg=IMAGENET)


def _refuse_lost_dropout(body: nn.Module, name: str, dropout: float | None) -> None:
    """Raise for a dropout that was in the head alone, which is cut off."""
    kept = [m for m in body.modules() if isinstance(m, nn.Dropout) and m.p == dropout]
    if dropout and not kept:
        raise ValueError(
            f"dropout of {name} belongs to its own head, which the pooling replaces; use drop_rate={dropout}"
        )


def _cut(model: nn.Module) -> nn.Sequential:
    """The children before the head, under their own names."""
    body = nn.Sequential()
    for name, child in model.named_children():
        if name not in _HEADS:
            body.add_module(name, child)
    if isinstance(model, torchvision.models.AlexNet | torchvision.models.VGG):
        body.features = model.features[:-1]
    if isinstance(model, torchvision.models.DenseNet):
        body.add_module("relu", nn.ReLU(inplace=True))  # a function in torchvision's forward
    return body
