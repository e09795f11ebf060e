"""Recognise the layout of a data set on disk, and open it where it is."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rootpool.suggest import some_names

from .files import ON_BAD_IMAGE
from .readers import (
    VAL,
    Listing,
    is_flat,
    read_cars,
    read_cifar10,
    read_cub,
    read_dogs,
    read_flat,
    read_folders,
    subfolders,
)
from .splits import ImageSplits, Transform

__all__ = ["LAYOUTS", "Layout", "open_splits"]


@dataclass(frozen=True)
class Layout:
    """The files and folders of a data set, and how to list its images.

    Args:
        name: of the data set.
        parts: files and folders that it must have; for each, the places where it may be.
        read: a function that gets the places, in that order, and returns the list of images.
    """

    name: str
    parts: tuple[tuple[str, ...], ...]
    read: Callable[..., Listing]

    def find(self, root: Path) -> list[Path | None]:
        """Where each part is under ``root``; None for a part that is not there."""
        return [
            next((root / place for place in places if (root / place).exists()), None)
            for places in self.parts
        ]


def _either(name: str, folder: str) -> tuple[str, str]:
    return name, f"{folder}/{name}"


_CUB = ("images.txt", "image_class_labels.txt", "train_test_split.txt", "classes.txt", "images")
_DOGS = (_either("train_list.mat", "lists"), _either("test_list.mat", "lists"), ("Images",))
_CARS = ("cars_train_annos.mat", "cars_test_annos_withlabels.mat", "cars_meta.mat")

LAYOUTS: list[Layout] = [
    Layout("cub-200-2011", tuple((part,) for part in _CUB), read_cub),
    Layout("stanford-dogs", _DOGS, read_dogs),
    Layout(
        "stanford-cars",
        (*(_either(part, "devkit") for part in _CARS), ("cars_train",), ("cars_test",)),
        read_cars,
    ),
    Layout("cifar-10", (("cifar-10-batches-py",),), read_cifar10),
    Layout("image-folder", (("train",), VAL), read_folders),
]


FLAT = Layout("flat-folder", (("<class>/<image>",),), read_flat)  # recognised by its class folders


def open_splits(
    data: str | os.PathLike[str],
    *,
    train_transform: Transform,
    val_transform: Transform,
    on_bad_image: str = "raise",
    val_share: float = 0.2,
    seed: int = 0,
) -> ImageSplits:
    """Open a data set in one of the ``LAYOUTS``, in place.

    Args:
        data: the folder that holds it.
        train_transform: from a PIL image in RGB to a tensor, for training.
        val_transform: the same for validation.
        on_bad_image: ``"raise"`` stops at the first file that cannot be decoded, when it is needed;
            ``"skip"`` decodes every file once beforehand and leaves the bad ones out, with a list on
            the standard error. Labels and classes stay as they are, and every process finds the same
            images. It takes about as long as an epoch of loading.
        val_share: of a flat folder, with no split of its own, the share of each class for validation.
        seed: of that split.
    """
    if on_bad_image not in ON_BAD_IMAGE:
        raise ValueError(f"on_bad_image must be {' or '.join(ON_BAD_IMAGE)}, got {on_bad_image!r}")
    root = Path(data).expanduser()
    layout, places = _recognise(root)
    content = layout.read(*places, *((val_share, seed) if layout is FLAT else ()))
    train, val = content.open(train_transform, val_transform, on_bad_image)
    for name, images in (("training", train), ("validation", val)):
        if not len(images):
            raise ValueError(f"{root} ({layout.name}) lists no {name} images")
    return ImageSplits(train, val, content.classes, layout.name)


def _recognise(root: Path) -> tuple[Layout, list[Path]]:
    if not root.is_dir():
        what = "is a file" if root.exists() else "does not exist"
        raise FileNotFoundError(
            f"data folder {root} {what}; give the folder that holds the data set"
        )
    matches = _matches(root)
    if len(matches) > 1:
        names = " and ".join(layout.name for layout, _ in matches)
        raise ValueError(f"{root} looks like {names}; move the files of one of them elsewhere")
    if not matches:
        raise FileNotFoundError(_nothing_recognised(root))
    return matches[0]


def _matches(root: Path) -> list[tuple[Layout, list[Path]]]:
    """The layouts that a folder has, with the places of their parts."""
    found = [(layout, layout.find(root)) for layout in LAYOUTS]
    whole = [
        (layout, [place for place in places if place is not None])
        for layout, places in found
        if None not in places
    ]
    official = any(any(places) for layout, places in found if layout.read is not read_folders)
    split = any(subfolders(place) for _, places in whole for place in places if place.is_dir())
    if is_flat(root) and not official and not split:  # train and val may be names of classes
        return [(FLAT, [root])]
    return whole


def _nothing_recognised(root: Path) -> str:
    """The error text: what was looked for, what is there, and which folder below it would work."""
    lines = [f"no known data set in {root}; looked for"]
    for layout in (*LAYOUTS, FLAT):
        missing = [
            " or ".join(places)
            for places, place in zip(layout.parts, layout.find(root), strict=True)
            if place is None
        ]
        lines.append(f"  {layout.name}: no {', no '.join(missing)}")
    entries = sorted(entry.name + "/" * entry.is_dir() for entry in root.iterdir())
    lines.append(f"found {some_names(entries) if entries else 'an empty folder'}")
    below = [entry for entry in sorted(root.iterdir()) if entry.is_dir() and _matches(entry)]
    lines += [f"try {entry}, which is {_matches(entry)[0][0].name}" for entry in below]
    return "\n".join(lines)
