"""Labelled images: folders, the official layouts of fine-grained sets, and embedded photographs."""

from .decode import BadImageError, decode_image
from .files import ImageFiles
from .layouts import LAYOUTS, Layout, open_splits
from .patches import EMBEDDED, PHOTOGRAPHS, photo_patches, photograph
from .splits import ImageSplits, LabelledImages, SomeImages, TensorImages, Transform, draw, hold_out
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
    "PHOTOGRAPHS",
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
    "draw",
    "fine_grained_transforms",
    "hold_out",
    "imagenet_transforms",
    "open_splits",
    "photo_patches",
    "photograph",
    "resized_crop_transforms",
]
