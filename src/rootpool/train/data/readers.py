"""Readers of the official layouts: check the lists of a data set, without decoding its images."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np
import torch
from scipy.io import loadmat
from torchvision.datasets import CIFAR10
from torchvision.datasets.folder import IMG_EXTENSIONS, make_dataset

from rootpool.suggest import some_names

from .files import ImageFiles, Sample, without_bad_images
from .splits import LabelledImages, TensorImages, Transform, all_but, draw

__all__ = [
    "Listing",
    "is_flat",
    "read_cars",
    "read_cifar10",
    "read_cub",
    "read_dogs",
    "read_flat",
    "read_folders",
    "subfolders",
]

EXTENSIONS = (*IMG_EXTENSIONS, ".gif")
VAL = ("val", "valid", "validation", "test")  # the folder for validation, the first that is there
SPLITS = ("train", "training", "testing", *VAL)


@dataclass(frozen=True)
class Listing:
    """The images of a data set, and the names of the labels.

    The images of a split are files, as paths with labels; or pixels with labels, which were read at once.
    """

    train: list[Sample] | CIFAR10
    val: list[Sample] | CIFAR10
    classes: tuple[str, ...]

    def open(
        self, train_transform: Transform, val_transform: Transform, on_bad_image: str
    ) -> list[LabelledImages]:
        """Both splits, without the images that are bad if those are to be skipped."""
        splits = [self.train, self.val]
        if on_bad_image == "skip" and not isinstance(self.train, CIFAR10):
            splits[:] = without_bad_images(self.train, self.val, self.classes)
        return [
            TensorImages(images.data, torch.tensor(images.targets), transform)
            if isinstance(images, CIFAR10)
            else ImageFiles(images, transform)
            for images, transform in zip(splits, (train_transform, val_transform), strict=True)
        ]


def read_cifar10(folder: Path) -> Listing:
    """CIFAR-10 as Python pickles, whose checksums torchvision compares with the published ones.

    A pickle can run any code when it is read.
    """
    try:
        train, test = (CIFAR10(folder.parent, train=part) for part in (True, False))
    except RuntimeError as error:
        raise ValueError(
            f"the files in {folder} are not those of CIFAR-10: one is missing, or its checksum is not the "
            f"published one ({error}); unpack cifar-10-python.tar.gz again"
        ) from error
    return Listing(train, test, tuple(train.classes))


# --------------------------------------------------------------------------------------------------
# Folders


def read_folders(train: Path, val: Path) -> Listing:
    """One folder per class in both splits, such as ImageNet; the classes are in alphabetical order."""
    classes, others = class_folders(train), class_folders(val)
    if classes != others:
        raise ValueError(
            f"{train} and {val} must have the same class folders; "
            f"only in {train.name}: {some_names(sorted(set(classes) - set(others)))}; "
            f"only in {val.name}: {some_names(sorted(set(others) - set(classes)))}"
        )
    return Listing(read_classes(train, classes), read_classes(val, classes), tuple(classes))


def read_classes(folder: Path, classes: Sequence[str]) -> list[Sample]:
    """``folder/<class>/*.jpg`` for some classes; a label is the number of its class among them."""
    indices = {name: index for index, name in enumerate(classes)}
    try:
        samples: list[Sample] = make_dataset(str(folder), indices, EXTENSIONS, allow_empty=True)
    except FileNotFoundError as error:  # a class folder vanished meanwhile
        raise FileNotFoundError(f"cannot read {folder}: {error}") from error
    empty = sorted(set(range(len(classes))) - {label for _, label in samples})
    if empty:
        folders = some_names([str(folder / classes[label]) for label in empty])
        raise ValueError(
            f"no images in {folders}; remove the folder, or "
            f"put images with a usual ending into it ({', '.join(EXTENSIONS[:3])}, ...)"
        )
    return samples


def class_folders(folder: Path) -> list[str]:
    """Names of the class folders in a folder, in order."""
    names = subfolders(folder)
    if not names:
        raise FileNotFoundError(f"{folder} has no class folders; expected {folder}/<class>/<image>")
    return names


def subfolders(root: Path) -> list[str]:
    """Names of the folders in a folder, in order, without hidden ones."""
    names = sorted(entry.name for entry in root.iterdir() if entry.is_dir())
    return [name for name in names if not name.startswith(".")]  # .ipynb_checkpoints


def is_flat(root: Path) -> bool:
    """Whether a folder holds class folders, without a split into training and validation.

    ``train/1.jpg`` beside ``test/2.jpg`` are images without a class; ``train/cat/1.jpg`` is half of a data
    set, and not an image of the class train.
    """
    if not root.is_dir():
        return False
    folders = [root / name for name in subfolders(root)]
    splits = [folder for folder in folders if folder.name.lower() in SPLITS]
    if any(_has_image(folder.iterdir()) for folder in folders):
        return len(splits) < len(folders)
    return len(folders) > 1 and not splits and all(_has_image(f.rglob("*")) for f in folders)


def _has_image(files: Iterable[Path]) -> bool:
    return any(file.suffix.lower() in EXTENSIONS for file in files)


def read_flat(root: Path, val_share: float = 0.2, seed: int = 0) -> Listing:
    """``<class>/<image>`` without a split: a share of each class, drawn by the seed, is for validation."""
    if not 0 < val_share < 1:
        raise ValueError(f"the share for validation must be between 0 and 1, got {val_share}")
    classes = class_folders(root)
    samples = read_classes(root, classes)
    labels = torch.tensor([label for _, label in samples])
    for label, count in enumerate(labels.bincount().tolist()):
        if count < 2:
            raise ValueError(
                f"{root / classes[label]} has one image; a split into training and validation needs two or "
                "more: add another, or remove the folder"
            )
    held = draw(labels, val_share, seed)
    train, val = ([samples[k] for k in part] for part in (all_but(len(labels), held), held))
    return Listing(train, val, tuple(classes))


# --------------------------------------------------------------------------------------------------
# CUB-200-2011: lines of an image number and a value in four text files


def read_cub(names: Path, labels: Path, split: Path, classes: Path, images: Path) -> Listing:
    """Caltech-UCSD Birds; the classes are the lines of ``classes.txt``."""
    class_names, files = _table(classes), _table(names)
    label_of, is_train = _table(labels), _table(split)
    for path, table in ((labels, label_of), (split, is_train)):
        if table.keys() != files.keys():
            wrong = sorted(table.keys() ^ files.keys())
            raise ValueError(f"{path} and {names.name} list different images: {some_names(wrong)}")
    if unknown := sorted(set(label_of.values()) - class_names.keys()):
        raise ValueError(
            f"{labels} has classes that {classes.name} does not name: {some_names(unknown)}"
        )
    if unknown := sorted(set(is_train.values()) - {"0", "1"}):
        raise ValueError(f"{split} must say 1 (train) or 0 (test), got {some_names(unknown)}")
    index_of = {number: index for index, number in enumerate(class_names)}
    samples: dict[str, list[Sample]] = {"1": [], "0": []}
    for number, file in files.items():
        sample = (inside(images, file, names), index_of[label_of[number]])
        samples[is_train[number]].append(sample)
    return Listing(samples["1"], samples["0"], tuple(class_names.values()))


def _table(path: Path) -> dict[str, str]:
    """Lines ``key value``, in order."""
    table: dict[str, str] = {}
    text = path.read_text(encoding="utf-8", errors="surrogateescape")  # as file names have it
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        key, _, value = line.strip().partition(" ")
        if not value or key in table:
            problem = "repeats a number" if key in table else "must be a number and a value"
            raise ValueError(f"{path}, line {number} {problem}, got {line!r}")
        table[key] = value.strip()
    return table


# --------------------------------------------------------------------------------------------------
# Stanford Dogs and Cars: MATLAB files


def read_dogs(train: Path, test: Path, images: Path) -> Listing:
    """Stanford Dogs; the classes are the folders, for example ``n02085620-Chihuahua``, in their order."""
    files = {path: [str(file) for file in _matlab(path, "file_list")] for path in (train, test)}
    folders = sorted({PurePosixPath(file).parts[0] for path in files for file in files[path]})
    splits = [
        [
            (inside(images, file, path), folders.index(PurePosixPath(file).parts[0]))
            for file in files[path]
        ]
        for path in (train, test)
    ]
    return Listing(splits[0], splits[1], tuple(folders))


def read_cars(
    train: Path, test: Path, meta: Path, train_images: Path, test_images: Path
) -> Listing:
    """Stanford Cars; the classes are the ``class_names`` in ``cars_meta.mat``, counted from 1."""
    classes = tuple(str(name) for name in _matlab(meta, "class_names"))
    splits = []
    for path, images in ((train, train_images), (test, test_images)):
        annotations = _matlab(path, "annotations")
        if missing := {"fname", "class"} - set(annotations.dtype.names or ()):
            raise ValueError(
                f"the annotations in {path} have no {' and no '.join(sorted(missing))}"
            )
        labels = [int(label) for label in annotations["class"]]
        if unknown := sorted(set(labels) - set(range(1, len(classes) + 1))):
            raise ValueError(f"{path} has classes that {meta.name} does not name: {unknown}")
        files = (inside(images, str(file), path) for file in annotations["fname"])
        splits.append([(file, k - 1) for file, k in zip(files, labels, strict=True)])
    return Listing(splits[0], splits[1], classes)


def _matlab(path: Path, key: str) -> Any:
    """An array of a MATLAB file, as one row."""
    try:
        content = loadmat(path, squeeze_me=True)
    except Exception as error:  # whatever a damaged file makes of the parser
        raise ValueError(f"cannot read {path} as a MATLAB file ({error})") from error
    if key not in content:
        found = [name for name in content if not name.startswith("__")]
        raise ValueError(f"{path} has no {key}, but {some_names(found)}")
    return np.atleast_1d(content[key])


def inside(root: Path, name: str, source: Path) -> str:
    """``root / name``, for a name that does not lead out of the root."""
    posix, windows = PurePosixPath(name), PureWindowsPath(name)
    leaves = posix.is_absolute() or windows.anchor or ".." in (*posix.parts, *windows.parts)
    if leaves or "\0" in name:
        raise ValueError(f"{source} names {name!r}, which is not a path within {root}")
    return str(root / name)
