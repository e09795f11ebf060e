"""Readers of the official layouts: check the lists of a data set, without decoding its images."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np
from scipy.io import loadmat
from torchvision.datasets.folder import IMG_EXTENSIONS, make_dataset

from rootpool.suggest import some_names

from .files import ImageFiles, Sample, without_bad_images
from .splits import LabelledImages, Transform

__all__ = ["Listing", "read_cars", "read_cub", "read_dogs", "read_folders"]

EXTENSIONS = (*IMG_EXTENSIONS, ".gif")


@dataclass(frozen=True)
class Listing:
    """The files of a data set: paths with labels for both splits, and the names of the labels."""

    train: list[Sample]
    val: list[Sample]
    classes: tuple[str, ...]

    def open(
        self, train_transform: Transform, val_transform: Transform, on_bad_image: str
    ) -> tuple[LabelledImages, LabelledImages]:
        """Both splits, without the images that are bad if those are to be skipped."""
        train, val = self.train, self.val
        if on_bad_image == "skip":
            train, val = without_bad_images(train, val, self.classes)
        return ImageFiles(train, train_transform), ImageFiles(val, val_transform)


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
    names = sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
    names = [name for name in names if not name.startswith(".")]  # .ipynb_checkpoints
    if not names:
        raise FileNotFoundError(f"{folder} has no class folders; expected {folder}/<class>/<image>")
    return names


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
    """Stanford Dogs; the classes are the folders, for example ``n02085620-Chihuahua``."""
    names: dict[int, str] = {}
    splits = []
    for path in (train, test):
        files, labels = _matlab(path, "file_list", "labels")
        splits.append(_samples(path, images, files, labels))
        for file, label in zip(files, map(int, labels), strict=True):
            folder = PurePosixPath(str(file)).parts[0]
            if names.setdefault(label, folder) != folder:
                raise ValueError(
                    f"{path} gives class {label} two folders, {names[label]} and {folder}"
                )
    classes = tuple(names[label] for label in sorted(names))
    if sorted(names) != list(range(1, len(names) + 1)) or len(set(classes)) < len(classes):
        raise ValueError(
            f"{train} and {test.name} must number the class folders 1, 2, ..., got "
            f"{some_names([f'{label}: {names[label]}' for label in sorted(names)])}"
        )
    return Listing(splits[0], splits[1], classes)


def read_cars(
    train: Path, test: Path, meta: Path, train_images: Path, test_images: Path
) -> Listing:
    """Stanford Cars; the classes are the ``class_names`` in ``cars_meta.mat``."""
    (class_names,) = _matlab(meta, "class_names")
    classes = tuple(str(name) for name in class_names)
    splits = []
    for path, images in ((train, train_images), (test, test_images)):
        (annotations,) = _matlab(path, "annotations")
        missing = {"fname", "class"} - set(annotations.dtype.names or ())
        if missing:
            raise ValueError(
                f"the annotations in {path} have no {' and no '.join(sorted(missing))}"
            )
        samples = _samples(path, images, annotations["fname"], annotations["class"])
        if samples and max(label for _, label in samples) >= len(classes):
            raise ValueError(f"{path} has classes beyond the {len(classes)} that {meta.name} names")
        splits.append(samples)
    return Listing(splits[0], splits[1], classes)


def _matlab(path: Path, *keys: str) -> list[Any]:
    """Arrays of a MATLAB file, each as one row."""
    try:
        content = loadmat(path, squeeze_me=True)
    except Exception as error:  # whatever a damaged file makes of the parser
        raise ValueError(f"cannot read {path} as a MATLAB file ({error})") from error
    if missing := [key for key in keys if key not in content]:
        found = [key for key in content if not key.startswith("__")]
        raise ValueError(f"{path} has no {' and no '.join(missing)}, but {some_names(found)}")
    return [np.atleast_1d(content[key]) for key in keys]


def _samples(path: Path, images: Path, files: Iterable[Any], labels: Iterable[Any]) -> list[Sample]:
    """Files with their labels, which MATLAB counts from 1."""
    files, labels = list(files), [int(label) for label in labels]
    if len(files) != len(labels):
        raise ValueError(f"{path} has {len(files)} files and {len(labels)} labels")
    if labels and min(labels) < 1:
        raise ValueError(f"{path} must count classes from 1, got {min(labels)}")
    return [
        (inside(images, str(file), path), label - 1)
        for file, label in zip(files, labels, strict=True)
    ]


def inside(root: Path, name: str, source: Path) -> str:
    """``root / name``, for a name that does not lead out of the root."""
    posix, windows = PurePosixPath(name), PureWindowsPath(name)
    leaves = posix.is_absolute() or windows.anchor or ".." in (*posix.parts, *windows.parts)
    if leaves or "\0" in name:
        raise ValueError(f"{source} names {name!r}, which is not a path within {root}")
    return str(root / name)
