"""What the transforms show of an image, and what they do to its pixels."""

import inspect
import math

import numpy as np
import pytest
import torch
from PIL import Image

from rootpool.train.data import (
    AUGMENTATIONS,
    TRANSFORMS,
    Preprocessing,
    cifar_transforms,
    fine_grained_transforms,
    imagenet_transforms,
    resized_crop_transforms,
)

MEAN = torch.tensor([0.485, 0.456, 0.406])[:, None, None]
DEVIATION = torch.tensor([0.229, 0.224, 0.225])[:, None, None]


def ramp(width, height):
    """Red is the column and green is the row, from 0 to 255, without a mirror image in itself."""
    y, x = np.mgrid[:height, :width]
    red, green = 255 * x / (width - 1), 255 * y / (height - 1)
    return Image.fromarray(np.stack([red, green, 0 * x + 60], -1).round().astype(np.uint8))


def colours(tensor):
    """Undo the normalisation: values from 0 to 255."""
    return (tensor * DEVIATION + MEAN) * 255


def window(tensor):
    """(left, right, top, bottom) of what is seen, in parts of the whole picture."""
    red, green, _ = colours(tensor) / 255
    return [red[:, 0].mean(), red[:, -1].mean(), green[0].mean(), green[-1].mean()]


@pytest.mark.parametrize("size", [(500, 375), (60, 80), (1, 1)])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_white_images_of_any_size(name, size):
    """Less the mean and over the deviation: of ImageNet, or of CIFAR-10, where the margin is black."""
    white = torch.tensor([2.0587, 2.1256, 2.1154])[:, None, None]
    white = white if name == "cifar" else (1 - MEAN) / DEVIATION
    crop = inspect.signature(TRANSFORMS[name]).parameters["crop"].default
    for transform in TRANSFORMS[name]():
        tensor = transform(Image.new("RGB", size, "white"))
        assert type(tensor) is torch.Tensor
        assert (tensor.shape, tensor.dtype) == ((3, crop, crop), torch.float32)
        inner = tensor[:, crop // 8 : -crop // 8, crop // 8 : -crop // 8]
        assert torch.allclose(inner, white.expand_as(inner), atol=1e-4)


@pytest.mark.parametrize(
    ("make", "size", "options", "expected"),
    [
        # 512 x 384 becomes 341 x 256; of it, columns 58 to 282 and rows 16 to 240.
        (imagenet_transforms, (512, 384), {}, [58.5 / 341, 282.5 / 341, 16 / 256, 240 / 256]),
        (imagenet_transforms, (512, 384), {"resize": (256, 256)}, [1 / 16, 15 / 16] * 2),
        (resized_crop_transforms, (512, 384), {}, [58.5 / 341, 282.5 / 341, 16 / 256, 240 / 256]),
        # 64 x 48: the shorter side becomes 48, crop 48 of 64 columns.
        (fine_grained_transforms, (640, 480), {"crop": 48}, [1 / 8, 7 / 8, 0, 1]),
        (fine_grained_transforms, (640, 480), {"crop": 48, "resize": (48, 48)}, [0, 1, 0, 1]),
        (fine_grained_transforms, (640, 480), {"crop": 48, "resize": (64, 64)}, [1 / 8, 7 / 8] * 2),
    ],
)
def test_validation_is_the_centre_of_the_resized_picture(make, size, options, expected):
    train, val = make(**options)
    seen = val(ramp(*size))
    atol = 0.02 if "crop" in options else 0.005
    assert torch.tensor(window(seen)).allclose(torch.tensor(expected).float(), atol=atol)
    if make is fine_grained_transforms:  # and training is that, or its mirror image
        torch.manual_seed(0)
        crops = [train(ramp(*size)) for _ in range(40)]
        straight = sum(torch.equal(crop, seen) for crop in crops)
        assert straight + sum(torch.equal(crop.flip(-1), seen) for crop in crops) == 40
        assert abs(straight - 20) < 16


def test_imagenet_training_crops_everywhere_and_flips_half():
    train, _ = imagenet_transforms(resize=(40, 40), crop=32)
    torch.manual_seed(0)
    picture = ramp(40, 40)
    lefts, tops, flips = [], [], 0
    for _ in range(300):
        left, right, top, bottom = (39 * part.item() for part in window(train(picture)))
        flips += left > right
        lefts.append(round(min(left, right)))
        tops.append(round(top))
        assert bottom - top == pytest.approx(31, abs=0.2)  # colours are rounded
    assert set(lefts) == set(tops) == set(range(9))
    assert abs(flips - 150) < 5 * math.sqrt(75)


def test_cifar_training_shifts_within_a_black_margin_and_flips_half():
    """Every result is one of the 81 windows of the padded image, or the mirror image of one."""
    train, val = cifar_transforms()
    picture = Image.fromarray(np.random.default_rng(0).integers(1, 256, (32, 32, 3), np.uint8))
    padded = np.zeros((40, 40, 3), np.uint8)
    padded[4:36, 4:36] = np.asarray(picture)
    windows = {}
    for y in range(9):
        for x in range(9):
            window = Image.fromarray(padded[y : y + 32, x : x + 32])
            windows[val(window).numpy().tobytes()] = (y, x, False)
            windows[val(window).flip(-1).contiguous().numpy().tobytes()] = (y, x, True)
    torch.manual_seed(0)
    seen = [windows[train(picture).contiguous().numpy().tobytes()] for _ in range(1200)]
    assert {place[:2] for place in seen} == {(y, x) for y in range(9) for x in range(9)}
    assert abs(sum(flipped for _, _, flipped in seen) - 600) < 5 * math.sqrt(300)


@pytest.mark.parametrize("sizes", [(200, 224), ((256, 200), 224), (256, 0)])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_crop_larger_than_the_picture(name, sizes):
    with pytest.raises(ValueError, match="crop must be positive and no larger than the resized"):
        TRANSFORMS[name](*sizes)


@pytest.mark.parametrize("augment", [None, *AUGMENTATIONS])
def test_augmentations_are_for_training_alone(augment):
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (50, 60, 3), dtype=np.uint8))
    train, val = resized_crop_transforms(crop=40, look=Preprocessing(augment=augment))
    _, plain = resized_crop_transforms(crop=40)
    assert torch.equal(val(image), plain(image))
    results = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        results.append(train(image))
    assert results[0].shape == (3, 40, 40)
    assert torch.equal(results[0], results[1])  # drawn from torch's generator alone
    assert not torch.equal(results[0], results[2])
