"""Backbones of timm and torchvision cut before their own pooling: images in, one feature map out."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import timm
import torch
import torchvision
from torch import Tensor, nn

__all__ = [
    "TORCHVISION_PREFIX",
    "Backbone",
    "Layout",
    "timm_backbone",
    "torchvision_backbone",
    "torchvision_names",
]

TORCHVISION_PREFIX = "torchvision/"


@dataclass(frozen=True)
class Layout:
    """Where a feature map has its channels, and how many leading tokens are no positions.

    >>> Layout("NLC", prefix_tokens=1)(torch.zeros(2, 197, 192)).shape
    torch.Size([2, 192, 196])
    """

    order: str = "NCHW"
    prefix_tokens: int = 0

    def __call__(self, features: Tensor) -> Tensor:
        if self.order == "NLC":
            return features[:, self.prefix_tokens :].transpose(1, 2)
        return features.permute(0, 3, 1, 2) if self.order == "NHWC" else features


class Backbone(nn.Module):
    """A network without its head: images to ``(B, num_features, H, W)`` or ``(B, num_features, N)``.

    Args:
        body: the network; its ``forward_features`` is called where it has one, as timm's models do.
        num_features: channels of the map.
        layout: what the body returns; ``forward`` puts the channels second.
        input_size: ``(C, H, W)`` of the images it was made for.
    """

    def __init__(
        self,
        body: nn.Module,
        num_features: int,
        layout: Layout = Layout(),  # noqa: B008 (frozen)
        input_size: tuple[int, int, int] = (3, 224, 224),
    ) -> None:
        super().__init__()
        self.body = body
        self.num_features = num_features
        self.layout = layout
        self.input_size = input_size

    def forward(self, images: Tensor) -> Tensor:
        return self.layout(_features(self.body)(images))

    def extra_repr(self) -> str:
        return f"num_features={self.num_features}, layout={self.layout}"


def _features(body: nn.Module) -> Callable[[Tensor], Tensor]:
    return getattr(body, "forward_features", body)


# --------------------------------------------------------------------------------------------------
# timm


def timm_backbone(
    name: str,
    *,
    pretrained: bool = False,
    tensors: Mapping[str, Tensor] | None = None,
    **options: Any,
) -> Backbone:
    """A timm model by its name: what its ``forward_features`` returns, before its own pooling.

    What only the head used (a convolution after the pooling, hidden layers) is left out, so that every
    parameter gets a gradient. Tokens of transformers are positions; class and register tokens are not.

    Args:
        name: a name that ``timm.list_models`` knows, with or without the tag of its weights.
        pretrained: whether timm fetches its weights.
        tensors: weights under timm's names, instead of fetched ones.
        options: for ``timm.create_model``, such as ``in_chans``, ``img_size`` or ``drop_path_rate``.
    """
    if not timm.is_model(name.split(".")[0]):
        close = difflib.get_close_matches(name, timm.list_models(), 3)
        raise ValueError(
            f"timm has no model {name!r}"
            + (f"; did you mean {', '.join(close)}?" if close else "")
            + " rootpool.models.names() lists all names"
        )

    with torch.device("meta"):
        sketch = _create_timm(name, options).eval()
        size = _input_size(sketch, options)
        try:
            num_features, layout, unused = _inspect(sketch, name, size)
        except (RuntimeError, NotImplementedError) as error:
            raise ValueError(
                f"{name} cannot be inspected without data ({error}); choose another model, or put "
                "PooledClassifier together yourself"
            ) from error
    if tensors is not None:
        options["pretrained_cfg_overlay"] = {"state_dict": dict(tensors)}
    body = _create_timm(name, options, pretrained=pretrained or tensors is not None)
    _drop_unused(body, unused)
    if tensors is not None:
        # timm only logs what is missing. It may rename, so that values count where names differ.
        state = body.state_dict()
        missing = {key for key in state.keys() - tensors.keys() if not _holds(tensors, state[key])}
        _refuse_missing(missing, name)
    return Backbone(body, num_features, layout, size)


def _create_timm(name: str, options: Mapping[str, Any], pretrained: bool = False) -> nn.Module:
    try:
        return timm.create_model(
            name, pretrained=pretrained, num_classes=0, global_pool="", **options
        )
    except AssertionError:  # some models cannot do without a pooling, which we do not call
        return timm.create_model(name, pretrained=pretrained, num_classes=0, **options)


def _holds(tensors: Mapping[str, Tensor], value: Tensor) -> bool:
    same_size = (t for t in tensors.values() if t.numel() == value.numel())
    return any(torch.equal(t.flatten().to(value), value.flatten()) for t in same_size)


def _refuse_missing(keys: Iterable[str], name: str) -> None:
    """Raise for parameters that a file did not have; old files do not count batches."""
    missing = sorted(key for key in keys if not key.endswith("num_batches_tracked"))
    if missing:
        raise ValueError(f"the weights are not those of {name}: no {', '.join(missing)}")


def _input_size(body: nn.Module, options: Mapping[str, Any]) -> tuple[int, int, int]:
    channels, height, width = (getattr(body, "pretrained_cfg", None) or {}).get(
        "input_size", (3, 224, 224)
    )
    size = options.get("img_size", (height, width))
    height, width = (size, size) if isinstance(size, int) else size
    return options.get("in_chans", channels), height, width


def _inspect(
    body: nn.Module, name: str, size: tuple[int, int, int]
) -> tuple[int, Layout, set[str]]:
    """Channels, layout and unused parameters of a network on the meta device: nothing is computed."""
    features = _features(body)(torch.empty(2, *size))
    if not isinstance(features, Tensor):
        raise ValueError(
            f"{name} returns a {type(features).__name__} instead of one feature map; "
            "choose a model with a single last stage"
        )
    layout = _layout(body, name, tuple(features.shape))
    parameters = dict(body.named_parameters())
    gradients = torch.autograd.grad(
        layout(features).sum(), list(parameters.values()), allow_unused=True
    )
    unused = {key for key, gradient in zip(parameters, gradients, strict=True) if gradient is None}
    return body.num_features, layout, unused  # type: ignore[return-value]


def _layout(body: nn.Module, name: str, shape: tuple[int, ...]) -> Layout:
    """The layout of a map, by what timm says of the model and by which axis has the channels."""
    channels = body.num_features
    if len(shape) == 3 and shape[-1] == channels:
        prefix = getattr(body, "num_prefix_tokens", None)
        if prefix is None and any("cls_token" in key for key, _ in body.named_parameters()):
            raise ValueError(
                f"{name} has a class token, but timm does not say how many of its {shape[1]} tokens "
                "are no positions; choose a model with num_prefix_tokens, such as a vit or deit"
            )
        return Layout("NLC", prefix or 0)
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


# --------------------------------------------------------------------------------------------------
# torchvision

# The children that come after the last feature map, or beside it.
_HEADS = frozenset({"avgpool", "classifier", "fc", "head", "flatten"})
# More than a chain of layers: tokens, auxiliary classifiers, input that is transformed, nested lists.
_NO_CHAIN = ("vit_", "inception_v3", "googlenet", "maxvit_t")


def torchvision_names() -> list[str]:
    """Names of torchvision's classifiers that are chains of layers, with our prefix.

    >>> "torchvision/alexnet" in torchvision_names()
    True
    """
    return [
        TORCHVISION_PREFIX + name
        for name in torchvision.models.list_models(module=torchvision.models)
        if not name.startswith(_NO_CHAIN)
    ]


def torchvision_backbone(
    name: str,
    *,
    weights: Any = None,
    tensors: Mapping[str, Tensor] | None = None,
    **options: Any,
) -> Backbone:
    """A torchvision classifier by its name, with or without ``torchvision/``, cut before its pooling.

    AlexNet and VGG also lose their last max pooling, which would throw away three positions of four:
    13 x 13 and 14 x 14 of them are left at 224 pixels, as in the earlier code of this line.

    Args:
        name: such as ``"torchvision/alexnet"``.
        weights: what ``torchvision.models.get_model`` takes, such as ``"DEFAULT"``.
        tensors: weights under torchvision's names, instead; those of the head are left out.
        options: for the model's constructor.
    """
    plain = name.removeprefix(TORCHVISION_PREFIX)
    known = torchvision_names()
    if TORCHVISION_PREFIX + plain not in known:
        if plain.startswith(_NO_CHAIN):
            raise ValueError(f"{name} is no chain of layers; try timm's {plain.split('_')[0]}_*")
        close = difflib.get_close_matches(TORCHVISION_PREFIX + plain, known, 3)
        raise ValueError(
            f"torchvision has no model {plain!r}"
            + (f"; did you mean {', '.join(close)}?" if close else "")
        )
    body = _cut(torchvision.models.get_model(plain, weights=weights, **options))
    shapes = {key: value.to("meta") for key, value in body.state_dict().items()}
    features = torch.func.functional_call(body, shapes, torch.empty(2, 3, 224, 224, device="meta"))
    if tensors is not None:
        _refuse_missing(body.state_dict().keys() - tensors.keys(), name)
        body.load_state_dict({key: tensors[key] for key in body.state_dict() if key in tensors})
    return Backbone(body, features.shape[1])


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
