"""A flat folder, ``<class>/<image>`` without a split: part of each class is kept for validation."""

from __future__ import annotations

import random
from pathlib import Path

from .files import Sample
from .readers import EXTENSIONS, Listing, class_folders, read_classes

__all__ = ["is_flat", "read_flat", "split_classes"]


def is_flat(root: Path) -> bool:
    """Whether a folder has class folders with images directly in them."""
    if not root.is_dir():
        return False
    folders = (
        entry for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith(".")
    )
    return any(file.suffix.lower() in EXTENSIONS for folder in folders for file in folder.iterdir())


def read_flat(root: Path, val_share: float = 0.2, seed: int = 0) -> Listing:
    """All images of the class folders, split at random by the seed; classes in the order of their names.

    Args:
        root: the folder.
        val_share: the share of the images of each class for validation.
        seed: the same seed gives the same split, on every machine.
    """
    classes = class_folders(root)
    train, val = split_classes(read_classes(root, classes), val_share, seed)
    return Listing(train, val, tuple(classes))


def split_classes(
    samples: list[Sample], share: float, seed: int
) -> tuple[list[Sample], list[Sample]]:
    """The rest and a share of each class, at least one sample of each class in both.

    >>> rest, part = split_classes([(f"{k}.jpg", k % 2) for k in range(10)], 0.4, seed=0)
    >>> len(rest), sorted(label for _, label in part)
    (6, [0, 0, 1, 1])
    """
    if not 0 < share < 1:
        raise ValueError(f"the share for validation must be between 0 and 1, got {share}")
    by_class: dict[int, list[Sample]] = {}
    for sample in sorted(samples):
        by_class.setdefault(sample[1], []).append(sample)
    rest, part = [], []
    for label, members in sorted(by_class.items()):
        if len(members) < 2:
            raise ValueError(
                f"{members[0][0]} is the only image of its class; a split into training and validation needs "
                "two or more: add another, or remove the folder"
            )
        random.Random(f"{seed} {label}").shuffle(members)
        count = min(max(round(share * len(members)), 1), len(members) - 1)
        part += members[:count]
        rest += members[count:]
    return sorted(rest), sorted(part)
