"""A data set: labelled images for training and for validation, and the names of the classes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.utils.data import Dataset

__all__ = ["ImageSplits", "LabelledImages", "TensorImages", "Transform"]

# From an image (PIL, or a tensor) to the input of a network; random ones use torch's global generator.
Transform = Callable[[Any], Tensor]


class LabelledImages(Dataset[tuple[Tensor, int]], ABC):
    """Images and their classes: ``images[k]`` is ``(image, label)``.

    Args:
        labels: ``(n,)``, int64, indices into the classes of the split.
    """

    def __init__(self, labels: Tensor) -> None:
        self.labels = labels

    def __len__(self) -> int:
        return len(self.labels)

    @abstractmethod
    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """The image after the transform, and its label."""


class TensorImages(LabelledImages):
    """Images held as one tensor, ``(n, C, H, W)``, and transformed one by one."""

    def __init__(self, images: Tensor, labels: Tensor, transform: Transform) -> None:
        super().__init__(labels)
        self.images = images
        self.transform = transform

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.transform(self.images[index]), int(self.labels[index])


@dataclass(frozen=True)
class ImageSplits:
    """A data set for training and validation.

    Args:
        train: images for training.
        val: images that the error is measured on.
        classes: the name of every label, in order.
        name: what the data set is called.
    """

    train: LabelledImages
    val: LabelledImages
    classes: tuple[str, ...]
    name: str
