"""CIFAR-10, which is small enough to be held in memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torchvision.datasets import CIFAR10

from .splits import LabelledImages, TensorImages, Transform

__all__ = ["HeldImages", "read_cifar10"]

Bytes = npt.NDArray[np.uint8]
Pixels = tuple[Bytes, Bytes]  # images (n, height, width, 3), and the label of each

SIDE = 32  # pixels
PICKLES, BINARY = "cifar-10-batches-py", "cifar-10-batches-bin"


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
        return _images(self.train, train_transform), _images(self.val, val_transform)


def _images(pixels: Pixels, transform: Transform) -> TensorImages:
    images, labels = pixels
    return TensorImages(images, torch.from_numpy(labels.astype(np.int64)), transform)


def read_cifar10(folder: Path) -> HeldImages:
    """CIFAR-10 in one of its two official forms, which the name of the folder tells apart.

    ``cifar-10-batches-py`` holds pickles, and a pickle can run any code when it is read. They are therefore
    read by torchvision, which first compares the checksum of each file with the published one.
    ``cifar-10-batches-bin`` holds plain bytes.
    """
    return _binary(folder) if folder.name == BINARY else _pickles(folder)


def _pickles(folder: Path) -> HeldImages:
    try:
        train, test = (CIFAR10(folder.parent, train=part) for part in (True, False))
    except RuntimeError as error:
        raise ValueError(
            f"the files in {folder} are not those of CIFAR-10: one is missing, or its checksum is not the "
            f"published one ({error}); unpack cifar-10-python.tar.gz again, or use {BINARY}"
        ) from error
    splits = [(split.data, np.array(split.targets, np.uint8)) for split in (train, test)]
    return HeldImages(splits[0], splits[1], tuple(train.classes))


def _binary(folder: Path) -> HeldImages:
    names = (folder / "batches.meta.txt").read_text(encoding="utf-8").split()
    train = [folder / f"data_batch_{k}.bin" for k in range(1, 6)]
    splits = [_records(files, len(names)) for files in (train, [folder / "test_batch.bin"])]
    return HeldImages(splits[0], splits[1], tuple(names))


def _records(files: list[Path], classes: int) -> Pixels:
    """Images and labels of files of records: the label, then all red, green and blue pixels."""
    length = 1 + 3 * SIDE**2
    content = np.concatenate([np.fromfile(file, np.uint8) for file in files])
    if content.size % length or content[::length].max(initial=0) >= classes:
        raise ValueError(
            f"{files[0].parent} must have records of {length} bytes with labels of {classes} classes, got "
            f"{content.size} bytes; unpack cifar-10-binary.tar.gz again"
        )
    records = content.reshape(-1, length)
    planes = records[:, 1:].reshape(-1, 3, SIDE, SIDE)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), records[:, 0].copy()
