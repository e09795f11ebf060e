"""Checkpoints of the paper's repository and of fast-MPN-COV: their names, and the networks they belong to.

Both train networks of three parts: ``features`` (a sequence of the backbone's children),
``representation`` (with the 1x1 reduction as ``conv_dr_block``) and ``classifier``. The published
``mpncovresnet`` files are flat instead: they have torchvision's names, and ``layer_reduce``,
``layer_reduce_bn`` and ``fc``. Where such a network is the ``features`` of a three-part one, its
reduction is children 8 and 9. Like ours, all of them give the classifier the upper triangle in row-major
order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from rootpool.linalg import triangle_size
from rootpool.nn import CovariancePool, Method

from .classifier import PooledClassifier
from .factory import create_model

Tensors = Mapping[str, Tensor]

# The flat names as children of the features.
_FLAT = {
    "conv1": "features.0",
    "bn1": "features.1",
    "layer1": "features.4",
    "layer2": "features.5",
    "layer3": "features.6",
    "layer4": "features.7",
    "layer_reduce": "features.8",
    "layer_reduce_bn": "features.9",
    "fc": "classifier",
}
_RESNET_REDUCTION = {
    "features.8": "representation.conv_dr_block.0",
    "features.9": "representation.conv_dr_block.1",
}
# Blocks in the four stages.
_RESNETS = {(3, 4, 6, 3): "paper/resnet50", (3, 4, 23, 3): "paper/resnet101"}


def three_parts(tensors: Tensors) -> tuple[dict[str, Tensor], bool] | None:
    """Tensors of a foreign file under the names of the three parts; None if it is not such a file.

    The second value says whether the reduction is one of the features, as in ``mpncovresnet``.
    """
    # Files written by one process have DataParallel around the features alone.
    parts = {re.sub(r"\bmodule\.", "", key): value for key, value in tensors.items()}
    if any(key.startswith("layer4.") for key in parts):
        parts = _renamed(parts, _FLAT)
    if not any(re.match(r"features\.\d+\.", key) for key in parts):
        return None
    inner = any(key.startswith("features.7.0.") for key in parts) and "features.8.weight" in parts
    return _renamed(parts, _RESNET_REDUCTION) if inner else parts, inner


def _renamed(parts: Tensors, modules: Mapping[str, str]) -> dict[str, Tensor]:
    """Tensors under the new names of some modules."""
    names = "|".join(map(re.escape, modules))
    return {
        re.sub(rf"^({names})(?=\.)", lambda found: modules[found[0]], key): value
        for key, value in parts.items()
    }


def our_names(parts: Tensors, model: PooledClassifier) -> dict[str, Tensor]:
    """The three parts under the names of our network; the children of the features match by order."""
    layers: Any = getattr(model.backbone, "body", model.backbone)
    path = "backbone.body."
    if [name for name, _ in layers.named_children()] == ["features"]:  # torchvision's AlexNet, VGG
        layers, path = layers.features, "backbone.body.features."
    children = [name for name, _ in layers.named_children()]

    def rename(key: str) -> str:
        found = re.fullmatch(r"features\.(\d+)\.(.*)", key)
        if found and int(found[1]) < len(children):
            return f"{path}{children[int(found[1])]}.{found[2]}"
        return key.replace("representation.conv_dr_block.", "pool.reduction.")

    return {rename(key): value for key, value in parts.items()}


# --------------------------------------------------------------------------------------------------
# The network, from names and shapes


def build_network(
    parts: Tensors,
    method: str | Method | None,
    num_classes: int | None,
    *,
    mpncovresnet: bool,
    **options: Any,
) -> PooledClassifier:
    """A network for the weights in the three parts, which are not loaded yet.

    It follows from the shapes, except the stride of a ResNet's last stage, which is 1 in ``mpncovresnet``.
    """
    stages = tuple(_blocks(parts, f"features.{k}.") for k in (4, 5, 6, 7))
    if stages in _RESNETS and "features.4.0.conv3.weight" in parts:
        name, channels = _RESNETS[stages], 2048
        defaults: dict[str, Any] = {"last_stride": 1 if mpncovresnet else 2}
    elif "features.0.weight" in parts and parts["features.0.weight"].shape == (64, 3, 11, 11):
        name, channels = "paper/alexnet", 256
        defaults = {"norm": "features.1.running_mean" in parts}
    else:
        raise ValueError(
            "the network in the file is not an AlexNet, ResNet-50 or ResNet-101; make the network yourself "
            "and pass it: load_checkpoint(path, model), or, for the weights of a backbone alone, use "
            "create_model(name, weights=path)"
        )
    pool, reduction = _pool(parts, channels, method)
    classes = num_classes or _classifier(parts)[-1].shape[0]
    return create_model(name, pool, classes, reduction=reduction, **{**defaults, **options})


def _blocks(parts: Tensors, stage: str) -> int:
    """Number of blocks of a stage: one more than the largest index after its name."""
    found = [re.match(rf"{re.escape(stage)}(\d+)\.", key) for key in parts]
    return max((int(match[1]) + 1 for match in found if match), default=0)


def _classifier(parts: Tensors) -> list[Tensor]:
    """The weights of the last layers, in order."""
    keys = sorted(key for key in parts if re.fullmatch(r"classifier\.(\d+\.)?weight", key))
    if not keys:
        raise ValueError("the file has no classifier (nor fc)")
    return [parts[key] for key in keys]


def _pool(
    parts: Tensors, channels: int, method: str | Method | None
) -> tuple[str | Method | nn.Module, int | None]:
    """The pooling that gives as many features as the classifier takes, and the reduction."""
    weight = parts.get("representation.conv_dr_block.0.weight")
    reduction = 0 if weight is None else weight.shape[0]
    width, pooled = _classifier(parts)[0].shape[1], reduction or channels
    if not reduction and width in (channels, channels * 6 * 6):
        if method not in (None, "gap"):
            raise ValueError(
                f"the last layer in the file takes averages of {channels} channels, so that pool={method!r} "
                "cannot be loaded; for a new head on the backbone use create_model(name, pool, weights=path)"
            )
        return "gap", None
    method = "exact" if method is None else method
    if width == triangle_size(pooled):
        return method, reduction
    if width == pooled**2:  # the flat network in the paper's repository takes whole matrices
        return CovariancePool(channels, method, reduction or None, output="matrix"), None
    raise ValueError(
        f"the classifier takes {width} features, which is not the triangle ({triangle_size(pooled)}), "
        f"matrix ({pooled**2}) or average ({channels}) of {pooled} channels"
    )
