"""Data sets in their official layouts: recognised, listed, and without their bad images."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import images
from rootpool.train.data import open_splits
from rootpool.train.data.files import without_bad_images


def pixels(image):
    return torch.from_numpy(np.asarray(image).copy())


def open_pixels(data, **options):
    return open_splits(data, train_transform=pixels, val_transform=pixels, **options)


def paths(dataset):
    return [dataset.path(index) for index in range(len(dataset))]


@pytest.mark.parametrize("name", images.MAKERS)
def test_layout_is_recognised_and_labels_fit_the_pixels(name, tmp_path):
    classes, for_train, for_val = images.LISTED[name]
    root = images.MAKERS[name](tmp_path / "data", classes=4, per_class=3)
    splits = open_pixels(str(root))
    assert (splits.name, len(splits.classes), splits.classes[:2]) == (name, 4, classes)
    for dataset in (splits.train, splits.val):
        assert torch.equal(torch.bincount(dataset.labels), torch.full((4,), 3))
        for image, label in (dataset[index] for index in range(12)):
            assert image.shape == (32, 40, 3)
            assert type(label) is int
            assert images.label_of(image.numpy(), 4) == label
    seen = {image.numpy().tobytes() for split in (splits.train, splits.val) for image, _ in split}
    assert len(seen) == 24
    assert any(for_train in path for path in paths(splits.train))
    assert any(for_val in path for path in paths(splits.val))
    assert not any(for_val in path for path in paths(splits.train))


def test_other_places_and_names_that_are_not_ascii(tmp_path):
    assert open_pixels(images.make_dogs(tmp_path / "a", lists="lists")).name == "stanford-dogs"
    cars = images.make_cars(tmp_path / "b", test_list="devkit/cars_test_annos_withlabels.mat")
    assert open_pixels(cars).name == "stanford-cars"
    tree = images.make_image_tree(
        tmp_path / "Vögel", classes=["Übersee-Ente", "Spatz 雀", "a", "C"]
    )
    splits = open_pixels(tree)
    assert splits.classes == ("C", "Spatz 雀", "a", "Übersee-Ente")
    assert paths(splits.train) == sorted(paths(splits.train))
    assert len(splits.train[len(splits.train) - 1]) == 2


# --------------------------------------------------------------------------------------------------
# Bad images in a data set


@pytest.mark.parametrize("name", images.MAKERS)
def test_skip_leaves_bad_images_out_and_labels_alone(name, tmp_path, capsys):
    root = images.MAKERS[name](tmp_path, classes=3, per_class=3)
    whole = open_pixels(root)
    bad = [whole.train.path(0), whole.train.path(4), whole.val.path(8)]
    for path in bad:
        os.truncate(path, 300)
    splits = open_pixels(root, on_bad_image="skip")
    report = capsys.readouterr().err
    assert "left out 3 of 18 images:" in report
    assert all(path in report for path in bad)
    assert splits.classes == whole.classes
    for before, after in ((whole.train, splits.train), (whole.val, splits.val)):
        labelled = zip(paths(before), before.labels.tolist(), strict=True)
        kept = [sample for sample in labelled if sample[0] not in bad]
        assert list(zip(paths(after), after.labels.tolist(), strict=True)) == kept
    with pytest.raises(ValueError, match=r"cannot decode .*; repair or remove it, or leave it out"):
        whole.train[4]


def test_a_class_without_a_good_image_is_an_error(tmp_path, capsys):
    samples = [(str(tmp_path / f"{k}.jpg"), k % 2) for k in range(8)]
    for path, label in samples:
        images.save_image(Path(path), label, 2, (8, 8), seed=0)
    good, bad = samples[4:], samples[:4]
    assert without_bad_images(bad, good, ["a", "b"]) == (bad, good)
    assert "left out" not in capsys.readouterr().err
    for path in (samples[1][0], samples[3][0]):
        os.truncate(path, 100)
    for split, parts in (("training", (bad, good)), ("validation", (good, bad))):
        with pytest.raises(ValueError, match=rf"every {split} image of 1 classes is bad \(b\)"):
            without_bad_images(*parts, ["a", "b"])


def test_missing_files_of_a_list_are_not_skipped(tmp_path):
    root = images.make_dogs(tmp_path)
    shutil.rmtree(root / "Images" / "n02080001-Breed_1")
    assert len(open_pixels(root).train) == 12
    with pytest.raises(FileNotFoundError, match=r"n02080001-Breed_1/n02080001_0\.jpg"):
        open_pixels(root, on_bad_image="skip")
    with pytest.raises(ValueError, match="on_bad_image must be raise or skip, got 'ignore'"):
        open_pixels(tmp_path, on_bad_image="ignore")
