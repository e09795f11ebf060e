"""Labelled files: what an item is, and which are left out."""

import os

import pytest

import images
from rootpool.train.data import BadImageError
from rootpool.train.data.files import without_bad_images


def make(root, count, classes=1):
    """Files ``root/<k>.jpg`` with labels in turn."""
    samples = [(str(root / f"{k}.jpg"), k % classes) for k in range(count)]
    for k, (path, label) in enumerate(samples):
        images.save_image(root / path, label, classes, (8, 8), seed=k)
    return samples


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
