"""Transforms of images for training and validation, by torchvision.

Each function returns two, for training and for validation: a PIL image to a normalised tensor
``(3, crop, crop)``. ``resize`` is the shorter side, or height and width, before the crop. Randomness comes
from torch's global generator alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torchvision.transforms import v2
from torchvision.transforms.v2 import InterpolationMode

from .splits import Transform

__all__ = [
    "AUGMENTATIONS",
    "TRANSFORMS",
    "Preprocessing",
    "before_normalisation",
    "cifar_transforms",
    "fine_grained_transforms",
    "imagenet_transforms",
    "resized_crop_transforms",
]

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet, R, G, B
CIFAR_MEAN, CIFAR_DEVIATION = (
    (0.49137, 0.48235, 0.44667),
    (0.24706, 0.24353, 0.26157),
)  # of CIFAR-10

# The shorter side, whose shape is kept, or height and width.
Size = int | tuple[int, int]

# Changes of colour and shape that come before the normalisation, by name.
AUGMENTATIONS: dict[str, Callable[[], torch.nn.Module]] = {
    "randaugment": v2.RandAugment,
    "trivialaugment": v2.TrivialAugmentWide,
    "autoaugment": v2.AutoAugment,
    "augmix": v2.AugMix,
}


@dataclass(frozen=True)
class Preprocessing:
    """What all transforms share: how images are resized, changed at random, and normalised.

    Args:
        mean: of the pixels, for each colour.
        std: their standard deviation.
        interpolation: of the resizing: ``bilinear`` or ``bicubic``.
        augment: a name in ``AUGMENTATIONS``, for training; None for none.
    """

    mean: Sequence[float] = MEAN
    std: Sequence[float] = DEVIATION
    interpolation: str = "bilinear"
    augment: str | None = None

    @property
    def mode(self) -> InterpolationMode:
        """The interpolation as torchvision has it."""
        return InterpolationMode(self.interpolation)

    def both(self, resize: Size, crop: int, *steps: torch.nn.Module) -> tuple[Transform, Transform]:
        """Training: the steps, a random flip and the augmentation; validation: resize, centre crop."""
        _check(resize, crop)
        extra = [] if self.augment is None else [AUGMENTATIONS[self.augment]()]
        return (
            self._normalised(*steps, v2.RandomHorizontalFlip(), *extra),
            self._normalised(self.resize(resize), v2.CenterCrop(crop)),
        )

    def _normalised(self, *steps: torch.nn.Module) -> v2.Compose:
        """The steps, between a PIL image and a normalised tensor."""
        return v2.Compose(
            [
                v2.ToImage(),  # first: torch resizes bytes several times faster than Pillow
                *steps,
                v2.ToDtype(torch.float32, scale=True),
                v2.Normalize(list(self.mean), list(self.std)),
                v2.ToPureTensor(),
            ]
        )

    def resize(self, size: Size) -> v2.Resize:
        """The shorter side, or both, brought to a size."""
        return v2.Resize(_pair(size), interpolation=self.mode)


PLAIN = Preprocessing()


def imagenet_transforms(
    resize: Size = 256, crop: int = 224, look: Preprocessing = PLAIN
) -> tuple[Transform, Transform]:
    """Training: resize, random crop, random flip; validation: resize, centre crop.

    The paper says "resized to 256x256 and then cropped to 224x224, with random horizontal flip" and
    "centered crop"; here the shorter side is resized, which keeps the shape of things and is how
    fast-MPN-COV and the paper's own code evaluate. ``resize=(256, 256)`` is the sentence to the letter.
    (That code trains with ``RandomResizedCrop(224)``, which the paper does not mention.)
    """
    return look.both(resize, crop, look.resize(resize), v2.RandomCrop(crop))


def fine_grained_transforms(
    resize: Size | None = None, crop: int = 448, look: Preprocessing = PLAIN
) -> tuple[Transform, Transform]:
    """Training: resize, centre crop, random flip; validation: the same without the flip.

    The paper says "resized to 448x448 and then fed into the network" and "inference on the 448x448
    centered crop". A centre crop means something only where the shorter side is resized, as the
    paper's code does for Birds: that is the default. For Dogs that code has ``resize=(512, 512)``, and
    for Cars ``resize=(448, 448)``. The flip is in that code and not in the paper's text.
    """
    resize = crop if resize is None else resize
    return look.both(resize, crop, look.resize(resize), v2.CenterCrop(crop))


def cifar_transforms(
    resize: Size = 32, crop: int = 32, look: Preprocessing = PLAIN
) -> tuple[Transform, Transform]:
    """Training: a random crop of the image within a black margin, random flip; validation: the image.

    The usual transforms for CIFAR, by default with the statistics of CIFAR-10. The margin is an eighth of the
    crop: 4 pixels of 32. Images of another size are resized first.
    """
    if (look.mean, look.std) == (MEAN, DEVIATION):
        look = replace(look, mean=CIFAR_MEAN, std=CIFAR_DEVIATION)
    shifted = v2.RandomCrop(crop, padding=crop // 8)
    return look.both(resize, crop, look.resize(resize), v2.CenterCrop(crop), shifted)


def resized_crop_transforms(
    resize: Size | None = None, crop: int = 224, look: Preprocessing = PLAIN
) -> tuple[Transform, Transform]:
    """Training: a random part of the image, resized to the crop, and a flip; validation: as for ImageNet.

    The part has 8 to 100 % of the area and sides of 3:4 to 4:3: torchvision's ``RandomResizedCrop``,
    with which most networks of today are trained. ``resize`` is for validation; by default it is 256/224 of
    the crop.
    """
    resize = round(crop * 256 / 224) if resize is None else resize
    return look.both(resize, crop, v2.RandomResizedCrop(crop, interpolation=look.mode))


TRANSFORMS: dict[str, Callable[..., tuple[Transform, Transform]]] = {
    "cifar": cifar_transforms,
    "imagenet": imagenet_transforms,
    "fine-grained": fine_grained_transforms,
    "resized-crop": resized_crop_transforms,
}


def before_normalisation(transform: Any) -> tuple[Transform, Callable[[Tensor], Tensor]]:
    """A transform up to its bytes, and the rest, for a whole batch on any device and without a host wait."""
    *steps, _, normalise, pure = transform.transforms

    def rest(images: Tensor) -> Tensor:
        pixels = images.float().mul_(1 / 255)
        statistics = zip(pixels.unbind(-3), normalise.mean, normalise.std, strict=True)
        for channel, mean, std in statistics:
            channel.sub_(mean).div_(std)
        return pixels

    return v2.Compose([*steps, pure]), rest


def _pair(resize: Size) -> list[int]:
    return [resize] if isinstance(resize, int) else list(resize)


def _check(resize: Size, crop: int) -> None:
    if crop < 1 or min(_pair(resize)) < crop:
        raise ValueError(
            f"the crop must be positive and no larger than the resized image, got {crop=}, {resize=}"
        )
