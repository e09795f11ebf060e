"""The paper's networks, layer by layer, and small ones for the embedded data and CIFAR-10: one table."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torchvision.ops import Conv2dNormActivation

from .backbones import Backbone
from .classifier import linear_or_none
from .torchvision_backbones import torchvision_backbone


@dataclass(frozen=True)
class Parts:
    """The parts of a network.

    ``classifier(in_features, num_classes)`` makes the last layers. ``vanilla`` is the pooling of the
    original network if that is not global average pooling.
    """

    backbone: Backbone
    classifier: Callable[[int, int], nn.Module] = linear_or_none
    vanilla: nn.Module | None = None


@dataclass(frozen=True)
class Preset:
    """A network by name: ``build(weights, tensors, **options)`` gives its parts.

    ``reduction`` is the number of channels after the reduction; None for no reduction.

    >>> PRESETS["paper/resnet50"].reduction
    256
    """

    build: Callable[..., Parts]
    reduction: int | None = None

    @property
    def options(self) -> dict[str, Any]:
        """Names and defaults of the options."""
        parameters = list(inspect.signature(self.build).parameters.values())
        return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


class FlatPool(nn.Sequential):
    """AlexNet's own pooling: ``size * size`` positions of all channels, in one vector."""

    def __init__(self, channels: int, size: int) -> None:
        super().__init__(nn.MaxPool2d(3, stride=2), nn.AdaptiveAvgPool2d(size), nn.Flatten())
        self.out_features = channels * size * size


def _alexnet(weights: Any, tensors: Mapping[str, Tensor] | None, *, norm: bool = True) -> Parts:
    """AlexNet without its last max pooling: 256 channels at 13 x 13 positions for 224 pixels.

    The classifier has AlexNet's three layers; the first takes the 32896 features of the pooling. With
    ``pool="gap"`` it is the original network: max pooling to 6 x 6, flattened to 9216 features.

    The paper has no reduction here. The scripts of both repositories still put a 1x1 convolution from 256
    to 256 channels before the covariance when they train from scratch; ``reduction=256`` does that.

    Args:
        norm: True for the network of the paper's repository, with batch norm after each convolution and
            no dropout. False for torchvision's, without batch norm and with dropout, which
            fast-MPN-COV uses and which has ImageNet weights.
    """
    if norm and (weights is not None or tensors is not None):
        raise ValueError(
            "paper/alexnet with batch norm has no ImageNet weights; use norm=False for torchvision's"
        )
    if norm:
        backbone = Backbone(_alexnet_with_norm(), 256)
    else:
        backbone = torchvision_backbone("alexnet", weights=weights, tensors=tensors)
        body: Any = backbone.body
        backbone.body = body.features

    def classifier(in_features: int, num_classes: int) -> nn.Sequential:
        layers: list[nn.Module] = []
        for width in (in_features, 4096):
            layers += [] if norm else [nn.Dropout()]
            layers += [nn.Linear(width, 4096), nn.ReLU(inplace=True)]
        return nn.Sequential(*layers, linear_or_none(4096, num_classes))

    return Parts(backbone, classifier, FlatPool(256, 6))


def _alexnet_with_norm() -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs, kernel, stride, padding, pooled in (
        (3, 64, 11, 4, 2, True),
        (64, 192, 5, 1, 2, True),
        (192, 384, 3, 1, 1, False),
        (384, 256, 3, 1, 1, False),
        (256, 256, 3, 1, 1, False),
    ):
        layers += Conv2dNormActivation(inputs, outputs, kernel, stride, padding, bias=True)
        layers += [nn.MaxPool2d(3, stride=2)] if pooled else []
    return nn.Sequential(*layers)


def _resnet(name: str) -> Callable[..., Parts]:
    def build(weights: Any, tensors: Mapping[str, Tensor] | None, *, last_stride: int = 2) -> Parts:
        """A ResNet whose 2048 channels are reduced to 256 before covariance pooling.

        With ``pool="gap"`` it is the original network, without reduction.

        Args:
            last_stride: stride of the last stage. 2 gives 7 x 7 positions at 224 pixels, as in
                torchvision's network, which the scripts of the paper's repository train. 1 gives 14 x 14,
                as in Li et al. (2018) and in the ``mpncovresnet`` of both repositories. The paper does
                not say which it uses, and the weights have the same shapes.
        """
        if last_stride not in (1, 2):
            raise ValueError(
                "last_stride must be 2 (7 x 7 positions at 224 pixels) or 1 (14 x 14), "
                f"got {last_stride!r}"
            )
        backbone = torchvision_backbone(name, weights=weights, tensors=tensors)
        body: Any = backbone.body
        for convolution in (body.layer4[0].conv2, body.layer4[0].downsample[0]):
            convolution.stride = (last_stride, last_stride)
        return Parts(backbone)

    return build


def _small(
    name: str, shapes: Sequence[tuple[int, int, int, int]], input_size: tuple[int, int, int]
) -> Callable[..., Parts]:
    def build(weights: Any, tensors: Mapping[str, Tensor] | None, *, norm: bool = True) -> Parts:
        """Convolutions with ReLU, by channels in and out, kernel and stride.

        Args:
            norm: batch norm after each convolution. Without it, the gradient of a batch is the mean of the
                gradients of its halves, which tests of distributed training rely on.
        """
        if weights is not None or tensors is not None:
            raise ValueError(f"{name} has no ImageNet weights")
        layers: list[nn.Module] = []
        for inputs, outputs, kernel, stride in shapes:
            norm_layer = nn.BatchNorm2d if norm else None
            layers += Conv2dNormActivation(inputs, outputs, kernel, stride, norm_layer=norm_layer)
        return Parts(Backbone(nn.Sequential(*layers), shapes[-1][1], input_size=input_size))

    return build


# For grey patches: 64 channels at 7 x 7 positions, so N < d.
PATCHNET = ((1, 24, 5, 2), (24, 32, 3, 1), (32, 64, 3, 2))
# For colour images: 64 channels at 8 x 8 positions, whose covariance has rank 63 at most.
CIFARNET = ((3, 24, 5, 2), (24, 32, 3, 1), (32, 64, 3, 2), (64, 64, 3, 1))


def _resnet9(weights: Any, tensors: Mapping[str, Tensor] | None, *, width: int = 16) -> Parts:
    """A ResNet of nine layers for small colour images: ``4 * width`` channels at a quarter of the side.

    With 28 pixels and a width of 16 that is 64 channels at 7 x 7 positions: fewer positions than channels, as
    in the ResNets of the paper.

    Args:
        width: channels of the first layer.
    """
    if weights is not None or tensors is not None:
        raise ValueError("resnet9 has no ImageNet weights")

    layer, w, halved = Conv2dNormActivation, width, nn.MaxPool2d(2)
    first = [layer(3, w), layer(w, 2 * w), halved]
    first += [_Residual(layer(2 * w, 2 * w), layer(2 * w, 2 * w))]
    last = [layer(2 * w, 4 * w), halved, layer(4 * w, 4 * w)]
    last += [_Residual(layer(4 * w, 4 * w), layer(4 * w, 4 * w))]
    return Parts(Backbone(nn.Sequential(*first, *last), 4 * w, input_size=(3, 28, 28)))


class _Residual(nn.Sequential):
    """Layers beside the identity."""

    def forward(self, features: Tensor) -> Tensor:
        return features + super().forward(features)


PRESETS: dict[str, Preset] = {
    "paper/alexnet": Preset(_alexnet),
    "paper/resnet50": Preset(_resnet("resnet50"), reduction=256),
    "paper/resnet101": Preset(_resnet("resnet101"), reduction=256),
    "patchnet": Preset(_small("patchnet", PATCHNET, (1, 28, 28))),
    "resnet9": Preset(_resnet9),
    "cifarnet": Preset(_small("cifarnet", CIFARNET, (3, 32, 32))),
}
