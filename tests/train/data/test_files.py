import os
import pickle

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

import images
from rootpool.train.data import BadImageError, ImageFiles, find_bad_images
from rootpool.train.data.files import CHUNK, without_bad_images


def pixels(image):
    return torch.from_numpy(np.asarray(image).copy())


def make(root, count, classes=1):
    """Files ``root/<k>.jpg`` with labels in turn."""
    samples = [(str(root / f"{k}.jpg"), k % classes) for k in range(count)]
    for k, (path, label) in enumerate(samples):
        images.save_image(root / path, label, classes, (8, 8), seed=k)
    return samples


def test_items_labels_and_paths(tmp_path):
    samples = make(tmp_path, 5, classes=2)
    dataset = ImageFiles(samples, pixels)
    assert len(dataset) == 5
    assert dataset.labels.tolist() == [0, 1, 0, 1, 0]
    assert [dataset.path(k) for k in range(5)] == [path for path, _ in samples]
    for k in range(5):
        image, label = dataset[k]
        assert np.array_equal(image, np.asarray(Image.open(samples[k][0])))
        assert label == k % 2


def test_error_crosses_from_a_worker_with_its_type_and_path(tmp_path):
    samples = make(tmp_path, 3)
    os.truncate(samples[1][0], 0)
    loader = DataLoader(ImageFiles(samples, pixels), batch_size=1, num_workers=1)
    batches = iter(loader)
    next(batches)
    message = r"1\.jpg \(the file is empty\); repair or remove it, or leave it out with --on-bad-im"
    with pytest.raises(BadImageError, match=message):
        next(batches)
    assert len(list(batches)) == 1


def test_a_pickled_dataset_is_the_same(tmp_path):
    dataset = ImageFiles(make(tmp_path, 2), pixels)
    again = pickle.loads(pickle.dumps(dataset))
    assert torch.equal(again[1][0], dataset[1][0])
    assert again.path(1) == dataset.path(1)


def test_find_bad_images_across_chunks(tmp_path):
    paths = [path for path, _ in make(tmp_path, 2 * CHUNK + 5)]
    assert find_bad_images(paths) == {}
    bad = [paths[0], paths[CHUNK - 1], paths[CHUNK], paths[-1]]
    for path in bad:
        os.truncate(path, 100)
    found = find_bad_images(paths)
    assert list(found) == bad
    assert all(path in reason for path, reason in found.items())


def test_a_class_without_a_good_image_is_an_error(tmp_path):
    samples = make(tmp_path, 8, classes=2)
    for path, _ in (samples[1], samples[3]):
        os.truncate(path, 100)
    message = r"every training image of 1 classes is bad \(b\); repair the data set"
    with pytest.raises(BadImageError, match=message):
        without_bad_images(samples[:4], samples[4:], ["a", "b"])
    message = r"every validation image of 1 classes is bad \(b\)"
    with pytest.raises(BadImageError, match=message):
        without_bad_images(samples[4:], samples[:4], ["a", "b"])
    assert without_bad_images(samples, samples[4:], ["a", "b"])[1] == samples[4:]


def test_good_images_are_left_in_peace(tmp_path, capsys):
    samples = make(tmp_path, 4)
    assert without_bad_images(samples[:2], samples[2:], ["a"]) == (samples[:2], samples[2:])
    assert "left out" not in capsys.readouterr().err
