"""``photo-patches``: which photograph is this patch from? Real images, with no download."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from .splits import ImageSplits, TensorImages, Transform

__all__ = ["EMBEDDED", "PHOTOGRAPHS", "PHOTO_PATCHES", "photo_patches", "photograph"]

PHOTO_PATCHES = "photo-patches"
# Authors and licences are in photographs/README.md.
PHOTOGRAPHS = (
    *("astronaut", "brick", "camera", "cell", "chelsea", "coffee", "coins", "grass", "gravel"),
    *("hubble", "ihc", "moon", "motorcycle", "page", "retina", "rocket", "china", "flower"),
)

BLOCK, PATCH, CROP = 64, 32, 28  # pixels
TRAIN, VAL = 112, 200  # patches per photograph
# A patch whose grey values (0 to 255) deviate less is sky, margin or lens cap: what normalisation
# would blow up is rounding.
FLAT = 1.0
CANDIDATES = 4  # positions looked at for each patch wanted; a sixth of the worst photograph is flat


def photograph(name: str) -> Tensor:
    """One of the embedded ``PHOTOGRAPHS`` in grey, ``(H, W)``, uint8.

    >>> photograph("page").shape
    torch.Size([191, 384])
    """
    with Image.open(Path(__file__).parent / "photographs" / f"{name}.png") as image:
        return torch.from_numpy(np.array(image))


def photo_patches(seed: int = 0) -> ImageSplits:
    """Grey patches of 18 photographs and textures; the label is the photograph.

    Each photograph is cut into blocks of 64 pixels, a third of which, chosen at random, is for
    validation. Patches of 32 pixels lie within one block each, so that no pixel is in both splits:
    112 per photograph for training and 200 for validation, 2016 and 3600 in all. Each has mean 0 and
    variance 1. Training sees a random crop of 28 pixels, flipped half of the time, validation the
    centre.

    Args:
        seed: chooses blocks and patches; the same seed gives the same data.

    >>> splits = photo_patches()
    >>> len(splits.train), len(splits.val), len(splits.classes)
    (2016, 3600, 18)
    >>> image, label = splits.val[0]
    >>> image.shape, splits.classes[label]
    (torch.Size([1, 28, 28]), 'astronaut')
    """
    generator = torch.Generator().manual_seed(seed)
    pieces = [cut_patches(photograph(name), (TRAIN, VAL), generator) for name in PHOTOGRAPHS]
    train, val = (torch.stack(split) for split in zip(*pieces, strict=True))
    return ImageSplits(
        train=_images(train, _random_crop),
        val=_images(val, _centre_crop),
        classes=PHOTOGRAPHS,
        name=PHOTO_PATCHES,
    )


# Plain slices, which take a tenth of the time of torchvision's transforms: a sixth of a training was theirs.
def _random_crop(patch: Tensor) -> Tensor:
    places = PATCH - CROP + 1
    y, x, flipped = (int(torch.randint(n, ())) for n in (places, places, 2))
    crop = patch[..., y : y + CROP, x : x + CROP]
    return crop.flip(-1) if flipped else crop


def _centre_crop(patch: Tensor) -> Tensor:
    edge = (PATCH - CROP) // 2
    return patch[..., edge : edge + CROP, edge : edge + CROP]


def _images(patches: Tensor, transform: Transform) -> TensorImages:
    """Patches ``(18, n, 32, 32)``, each with mean 0 and variance 1, and the number of the photograph."""
    labels = torch.arange(len(patches)).repeat_interleave(patches.shape[1])
    pixels = patches.flatten(0, 1).unsqueeze(1).float()
    deviation, mean = torch.std_mean(pixels, (-2, -1), correction=0, keepdim=True)
    return TensorImages((pixels - mean) / deviation, labels, transform)


def cut_patches(
    image: Tensor, counts: tuple[int, int], generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Patches for training and for validation, from different blocks of an image ``(H, W)``.

    Returns:
        ``(counts[0], 32, 32)`` and ``(counts[1], 32, 32)``, in the dtype of the image.
    """
    number = (image.shape[0] // BLOCK) * (image.shape[1] // BLOCK)
    val, train = torch.randperm(number, generator=generator).tensor_split([number // 3])
    return _draw(image, train, counts[0], generator), _draw(image, val, counts[1], generator)


def _draw(image: Tensor, blocks: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """``count`` patches within the given blocks, flat ones excepted, all positions equally likely."""
    columns, offsets = image.shape[1] // BLOCK, BLOCK - PATCH + 1
    place = torch.randperm(len(blocks) * offsets**2, generator=generator)[: CANDIDATES * count]
    block = blocks[place // offsets**2]
    y = block // columns * BLOCK + place // offsets % offsets
    x = block % columns * BLOCK + place % offsets
    patches = image.unfold(0, PATCH, 1).unfold(1, PATCH, 1)[y, x]
    return patches[patches.float().std((1, 2), correction=0) >= FLAT][:count]


# Data sets that need no folder, by the name that stands in its place.
EMBEDDED: dict[str, Callable[[], ImageSplits]] = {PHOTO_PATCHES: photo_patches}
