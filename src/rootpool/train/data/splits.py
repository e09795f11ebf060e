"""A data set: labelled images for training and for validation, and the names of the classes."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

__all__ = [
    "ImageSplits",
    "LabelledImages",
    "SomeImages",
    "TensorImages",
    "Transform",
    "all_but",
    "draw",
    "hold_out",
]

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

    def path(self, index: int) -> str:
        """Where an image is; empty for one that is not a file."""
        return ""


class TensorImages(LabelledImages):
    """Images held as one tensor, ``(n, C, H, W)``, or array, and transformed one by one."""

    def __init__(self, images: Any, labels: Tensor, transform: Transform) -> None:
        super().__init__(labels)
        self.images = images
        self.transform = transform

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.transform(self.images[index]), int(self.labels[index])


class SomeImages(LabelledImages):
    """Some of the images of another set, by their indices."""

    def __init__(self, images: LabelledImages, indices: Tensor) -> None:
        super().__init__(images.labels[indices])
        self.images = images
        self.indices = indices

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.images[int(self.indices[index])]

    def path(self, index: int) -> str:
        return self.images.path(int(self.indices[index]))


def draw(labels: Tensor, share: float, seed: int) -> Tensor:
    """Indices, in order, of a share of the samples of each class, drawn by the seed.

    At least one of each class is drawn and, if there are several, one is left.

    >>> labels = torch.tensor([0] * 10 + [1, 1])
    >>> labels[draw(labels, 0.3, seed=0)]
    tensor([0, 0, 0, 1])
    """
    generator = torch.Generator().manual_seed(seed)
    drawn = []
    for label in labels.unique():
        members = (labels == label).nonzero()[:, 0]
        count = max(min(round(share * len(members)), len(members) - 1), 1)
        drawn.append(members[torch.randperm(len(members), generator=generator)[:count]])
    return torch.cat(drawn).sort().values


def all_but(length: int, indices: Tensor) -> Tensor:
    """The other indices below ``length``."""
    kept = torch.ones(length, dtype=torch.bool).index_fill_(0, indices, False)
    return kept.nonzero()[:, 0]


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


def hold_out(splits: ImageSplits, share: float) -> ImageSplits:
    """Split the training images, a share of each class for validation.

    For the choice of settings. The draw is always the same, so that seeds can be compared.
    """
    images = splits.train
    held = draw(images.labels, share, seed=0)
    seen_as_val = copy.copy(images)
    seen_as_val.transform = splits.val.transform  # type: ignore[attr-defined]
    rest = SomeImages(images, all_but(len(images), held))
    return replace(splits, train=rest, val=SomeImages(seen_as_val, held))
