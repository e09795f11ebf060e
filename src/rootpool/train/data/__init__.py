"""Labelled images: folders, the official layouts of fine-grained sets, and embedded photographs."""

from .decode import BadImageError, decode_image
from .files import ON_BAD_IMAGE, ImageFiles, find_bad_images
from .layouts import LAYOUTS, Layout, open_splits
from .patches import EMBEDDED, PHOTO_PATCHES, photo_patches
from .photographs import PHOTOGRAPHS, Photograph
from .splits import ImageSplits, LabelledImages, TensorImages, Transform
from .transforms import TRANSFORMS, cifar_transforms, fine_grained_transforms, imagenet_transforms

__all__ = [
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
    "Photograph",
    "TensorImages",
    "Transform",
    "cifar_transforms",
    "decode_image",
    "find_bad_images",
    "fine_grained_transforms",
    "imagenet_transforms",
    "open_splits",
    "photo_patches",
]
