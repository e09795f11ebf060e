"""Labelled images: folders, the official layouts of fine-grained sets, and embedded photographs."""

from .patches import photo_patches
from .photographs import PHOTOGRAPHS, Photograph
from .splits import ImageSplits, LabelledImages, TensorImages

__all__ = [
    "PHOTOGRAPHS",
    "ImageSplits",
    "LabelledImages",
    "Photograph",
    "TensorImages",
    "photo_patches",
]
