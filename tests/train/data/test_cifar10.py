"""CIFAR-10 from its pickles."""

import hashlib
import pickle

import numpy as np
import pytest
from torchvision.datasets import CIFAR10

import hostile
import images
from rootpool.train.data import open_splits

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


@pytest.mark.parametrize("name", ["data_batch_2", "test_batch", "batches.meta"])
def test_a_pickle_with_another_checksum_is_refused_unread(name, pickles):
    (pickles / name).write_bytes(pickle.dumps(hostile.RunsCode(pickles / "bang")))
    with pytest.raises(ValueError, match=r"py are not those of CIFAR-10: .* checksum .*; unpack"):
        opened(pickles.parent)
    assert not (pickles / "bang").exists()
