"""Data sets that are small enough to be held in memory, and the reader of CIFAR-10."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor
from torchvision.datasets import CIFAR10

from .splits import LabelledImages, Transform

__all__ = ["HeldImages", "PixelImages", "Pixels", "read_cifar10"]

Bytes = npt.NDArray[np.uint8]

SIDE = 32  # pixels
PICKLES, BINARY = "cifar-10-batches-py", "cifar-10-batches-bin"


@dataclass(frozen=True)
class Pixels:
    """Images as bytes, ``(n, height, width, 3)``, and the label of each."""

    images: Bytes
    labels: Bytes

    def __len__(self) -> int:
        return len(self.labels)


class PixelImages(LabelledImages):
    """Images in memory, which the transform gets one by one, as it gets those of files."""

    def __init__(self, pixels: Pixels, transform: Transform) -> None:
        super().__init__(torch.from_numpy(pixels.labels.astype(np.int64)))
        self._images = pixels.images
        self.transform = transform

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.transform(Image.fromarray(self._images[index])), int(self.labels[index])


@dataclass(frozen=True)
class HeldImages:
    """A data set in memory: the pixels of both splits, and the names of the labels."""

    train: Pixels
    val: Pixels
    classes: tuple[str, ...]

    def open(
        self, train_transform: Transform, val_transform: Transform, on_bad_image: str
    ) -> tuple[LabelledImages, LabelledImages]:
        """Both splits. No image is bad here: there is nothing left to decode."""
        return PixelImages(self.train, train_transform), PixelImages(self.val, val_transform)


# --------------------------------------------------------------------------------------------------
# CIFAR-10: five files for training and one for test, as pickles or as plain bytes


def read_cifar10(folder: Path) -> HeldImages:
    """CIFAR-10 in one of its two official forms, which the name of the folder tells apart.

    ``cifar-10-batches-py`` holds pickles, and a pickle can run any code when it is read. They are therefore
    read by torchvision, which first compares the checksum of each file with the published one.
    ``cifar-10-batches-bin`` holds plain bytes.
    """
    return {PICKLES: _pickles, BINARY: _binary}[folder.name](folder)


def _pickles(folder: Path) -> HeldImages:
    try:
        train, test = (CIFAR10(folder.parent, train=part) for part in (True, False))
    except RuntimeError as error:
        raise ValueError(
            f"the files in {folder} are not those of CIFAR-10: one is missing, or its checksum is not the "
            f"published one ({error}); unpack cifar-10-python.tar.gz again, or use {BINARY}"
        ) from error
    splits = [Pixels(split.data, np.array(split.targets, np.uint8)) for split in (train, test)]
    return HeldImages(splits[0], splits[1], tuple(train.classes))


def _binary(folder: Path) -> HeldImages:
    lines = (folder / "batches.meta.txt").read_text(encoding="utf-8").splitlines()
    names = [line.strip() for line in lines if line.strip()]
    train = [_records(folder / f"data_batch_{k}.bin", len(names)) for k in range(1, 6)]
    whole = Pixels(*(np.concatenate(part) for part in zip(*train, strict=True)))
    return HeldImages(whole, Pixels(*_records(folder / "test_batch.bin", len(names))), tuple(names))


def _records(path: Path, classes: int) -> tuple[Bytes, Bytes]:
    """Images and labels of a file of records: the label, then all red, green and blue pixels."""
    content = np.fromfile(path, np.uint8)
    length = 1 + 3 * SIDE**2
    if content.size % length:
        raise ValueError(
            f"{path} must consist of records of {length} bytes, got {content.size} bytes; "
            "unpack cifar-10-binary.tar.gz again"
        )
    records = content.reshape(-1, length)
    labels, planes = records[:, 0].copy(), records[:, 1:].reshape(-1, 3, SIDE, SIDE)
    if len(labels) and labels.max() >= classes:
        raise ValueError(f"{path} has label {labels.max()}, but batches.meta.txt {classes} names")
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), labels
