"""Labelled image files, and the choice to stop at unreadable ones or to leave them out."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from rich.console import Console
from torch import Tensor

from rootpool.progress import Display

from .decode import BadImageError, decode_image
from .splits import LabelledImages, Transform

__all__ = ["ON_BAD_IMAGE", "ImageFiles", "Sample", "find_bad_images", "without_bad_images"]

Sample = tuple[str, int]  # a path and its label

ON_BAD_IMAGE = ("raise", "skip")
CHUNK = 64  # files per task


class ImageFiles(LabelledImages):
    """Image files, decoded when asked for; a bad one raises :class:`BadImageError` with its path."""

    def __init__(self, samples: Sequence[Sample], transform: Transform) -> None:
        super().__init__(torch.tensor([label for _, label in samples], dtype=torch.int64))
        # One array and not a million strings: counting references to those copies them, page by
        # page, into every worker of a loader.
        self._paths = np.array([os.fsencode(path) for path, _ in samples])
        self.transform = transform

    def path(self, index: int) -> str:
        return os.fsdecode(bytes(self._paths[index]))

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        try:
            image = decode_image(self.path(index))
        except BadImageError as error:
            raise BadImageError(f"{error}, or leave it out with --on-bad-image skip") from error
        return self.transform(image), int(self.labels[index])


def find_bad_images(paths: Sequence[str]) -> dict[str, str]:
    """Decode every file once, in threads, with a progress bar; return the reason for each bad one.

    Files that cannot be read at all (missing, not permitted, a failing disk) raise OSError: that is
    not a property of the image and may be different in the next process.
    """
    bad: dict[str, str] = {}
    display = Display("checking images", len(paths), console=Console(stderr=True))
    with ThreadPoolExecutor() as pool, display:
        chunks = [paths[k : k + CHUNK] for k in range(0, len(paths), CHUNK)]
        for k, found in enumerate(pool.map(_bad_of, chunks), 1):
            bad |= found
            display.update(min(k * CHUNK, len(paths)))
    return bad


def _bad_of(paths: Sequence[str]) -> dict[str, str]:
    bad = {}
    for path in paths:
        try:
            decode_image(path)
        except BadImageError as error:
            bad[path] = str(error)
    return bad


def without_bad_images(
    train: Sequence[Sample], val: Sequence[Sample], classes: Sequence[str]
) -> tuple[list[Sample], list[Sample]]:
    """Both splits without the bad images, which are listed on the standard error.

    All files are checked beforehand, so every process and every epoch has the same samples in the
    same order; classes and labels stay as they were. A class that loses all its images is an error.
    """
    paths = [path for path, _ in (*train, *val)]
    bad = find_bad_images(paths)
    if bad:
        lines = [f"left out {len(bad)} of {len(paths)} images:"]
        lines += [f"  {reason}" for reason in bad.values()]
        print("\n".join(lines), file=sys.stderr)
    return _kept("training", train, bad, classes), _kept("validation", val, bad, classes)


def _kept(
    split: str, samples: Sequence[Sample], bad: dict[str, str], classes: Sequence[str]
) -> list[Sample]:
    kept = [sample for sample in samples if sample[0] not in bad]
    lost = {label for _, label in samples} - {label for _, label in kept}
    if lost:
        names = ", ".join(classes[label] for label in sorted(lost)[:10])
        raise BadImageError(
            f"every {split} image of {len(lost)} classes is bad ({names}); repair the data set"
        )
    return kept
