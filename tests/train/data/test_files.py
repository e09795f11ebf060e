"""Labelled files: what an item is, and which are left out."""

import os

import pytest

import images
from rootpool.train.data import BadImageError
from rootpool.train.data.files import CHUNK, find_bad_images, without_bad_images


def make(root, count, classes=1):
    """Files ``root/<k>.jpg`` with labels in turn."""
    samples = [(str(root / f"{k}.jpg"), k % classes) for k in range(count)]
    for k, (path, label) in enumerate(samples):
        images.save_image(root / path, label, classes, (8, 8), seed=k)
    return samples


def test_bad_images_are_found_in_every_chunk(tmp_path):
    paths = [path for path, _ in make(tmp_path, 2 * CHUNK + 5)]
    bad = [paths[0], paths[CHUNK - 1], paths[CHUNK], paths[-1]]
    for path in bad:
        os.truncate(path, 100)
    found = find_bad_images(paths)
    assert list(found) == bad
    assert all(path in reason for path, reason in found.items())


def test_a_class_without_a_good_image_is_an_error(tmp_path, capsys):
    samples = make(tmp_path, 8, classes=2)
    good, bad = samples[4:], samples[:4]
    assert without_bad_images(bad, good, ["a", "b"]) == (bad, good)
    assert "left out" not in capsys.readouterr().err
    for path, _ in (samples[1], samples[3]):
        os.truncate(path, 100)
    for split, parts in (("training", (bad, good)), ("validation", (good, bad))):
        with pytest.raises(BadImageError, match=rf"every {split} image of 1 classes is bad \(b\)"):
            without_bad_images(*parts, ["a", "b"])
