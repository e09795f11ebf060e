"""Labelled images: folders, the official layouts of fine-grained sets, and embedded photographs."""

from .decode import BadImageError, decode_image
from .files import ON_BAD_IMAGE, ImageFiles, find_bad_images
from .layouts import LAYOUTS, Layout, open_splits
from .patches import EMBEDDED, PHOTO_PATCHES, PHOTOGRAPHS, photo_patches, photograph
from .splits import (
    ImageSplits,
    LabelledImages,
    SomeImages,
    TensorImages,
    Transform,
    hold_out,
    part_of,
)
from .transforms import (
    AUGMENTATIONS,
    TRANSFORMS,
    Preprocessing,
    cifar_transforms,
    fine_grained_transforms,
    imagenet_transforms,
    resized_crop_transforms,
)

__all__ = [
    "AUGMENTATIONS",
    "EMBEDDED",
    "LAYOUTS",
    "ON_BAD_IMAGE",
    "PHOTOGRAPHS",
    "PHOTO_PATCHES",
    "TRANSFORMS",
    "BadImageError",
    "ImageFiles",
    "ImageSplits",
    "LabelledImages",
    "Layout",
    "Preprocessing",
    "SomeImages",
    "TensorImages",
    "Transform",
    "cifar_transforms",
    "decode_image",
    "find_bad_images",
    "fine_grained_transforms",
    "hold_out",
    "imagenet_transforms",
    "open_splits",
    "part_of",
    "photo_patches",
    "photograph",
    "resized_crop_transforms",
]
