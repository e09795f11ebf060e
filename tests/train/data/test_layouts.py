import os
import shutil

import numpy as np
import pytest
import torch

import images
from rootpool.train.data import open_splits


def pixels(image):
    return torch.from_numpy(np.asarray(image).copy())


def open_pixels(data, **options):
    return open_splits(data, train_transform=pixels, val_transform=pixels, **options)


def paths(dataset):
    return [dataset.path(index) for index in range(len(dataset))]


@pytest.mark.parametrize("name", images.MAKERS)
def test_layout_is_recognised_and_labels_fit_the_pixels(name, tmp_path):
    root = images.MAKERS[name](tmp_path / "data", classes=4, per_class=3)
    splits = open_pixels(root)
    assert (splits.name, len(splits.classes)) == (name, 4)
    for dataset in (splits.train, splits.val):
        assert len(dataset) == 12
        assert torch.equal(torch.bincount(dataset.labels), torch.full((4,), 3))
        for image, label in (dataset[index] for index in range(12)):
            assert image.shape == (32, 32 if name in images.HELD else 40, 3)
            assert type(label) is int
            assert images.label_of(image.numpy(), 4) == label
    seen = {image.numpy().tobytes() for split in (splits.train, splits.val) for image, _ in split}
    assert len(seen) == 24


@pytest.mark.parametrize(
    ("name", "classes"),
    [
        ("cub-200-2011", ("001.Bird_0", "002.Bird_1")),
        ("stanford-dogs", ("n02080000-Breed_0", "n02080001-Breed_1")),
        ("stanford-cars", ("Maker 0 Coupe 2012", "Maker 1 Coupe 2012")),
        ("cifar-10", ("class00", "class01")),
        ("image-folder", ("class00", "class01")),
    ],
)
def test_class_names(name, classes, tmp_path):
    assert open_pixels(images.MAKERS[name](tmp_path, 2, 1)).classes == classes


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("cub-200-2011", ("_0000.", "_0001.")),
        ("stanford-dogs", ("_0.", "_2.")),
        ("stanford-cars", ("cars_train", "cars_test")),
        ("image-folder", ("train", "val")),
    ],
)
def test_official_split(name, parts, tmp_path):
    """What is for training is told by the file names that the makers give."""
    splits = open_pixels(images.MAKERS[name](tmp_path, 2, 2))
    assert any(parts[0] in path for path in paths(splits.train))
    assert not any(parts[1] in path for path in paths(splits.train))
    assert any(parts[1] in path for path in paths(splits.val))
    assert not any(parts[0] in path for path in paths(splits.val))


def test_other_places(tmp_path):
    tree = images.make_image_tree(tmp_path / "tree", splits=("train", "test"))
    assert "/test/" in open_pixels(tree).val.path(0)
    images.make_image_tree(tree, splits=("val",))
    assert "/val/" in open_pixels(tree).val.path(0)
    dogs = images.make_dogs(tmp_path / "dogs", lists="lists")
    assert open_pixels(dogs).name == "stanford-dogs"
    cars = images.make_cars(tmp_path / "cars", test_list="devkit/cars_test_annos_withlabels.mat")
    assert open_pixels(str(cars)).name == "stanford-cars"


def test_order_is_that_of_the_lists_and_the_same_every_time(tmp_path):
    root = images.make_cub(tmp_path)
    lines = (root / "images.txt").read_text().splitlines()
    files = [str(root / "images" / line.split()[1]) for line in lines]
    splits = open_pixels(root)
    assert paths(splits.train) == files[0::2]
    assert paths(splits.val) == files[1::2]
    tree = images.make_image_tree(tmp_path / "tree", classes=["b", "a", "C"])
    assert open_pixels(tree).classes == ("C", "a", "b")
    first, again = open_pixels(tree), open_pixels(tree)
    assert paths(first.train) == paths(again.train) == sorted(paths(first.train))


def test_names_that_are_not_ascii(tmp_path):
    tree = images.make_image_tree(tmp_path / "Vögel", classes=["Übersee-Ente", "Spatz 雀"])
    splits = open_pixels(tree)
    assert splits.classes == ("Spatz 雀", "Übersee-Ente")
    assert all(len(splits.train[index]) == 2 for index in range(len(splits.train)))


# --------------------------------------------------------------------------------------------------
# What is not recognised


def test_missing_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"data folder .*nothing does not exist; give"):
        open_pixels(tmp_path / "nothing")
    (tmp_path / "file").touch()
    with pytest.raises(FileNotFoundError, match=r"data folder .*file is a file; give the folder"):
        open_pixels(tmp_path / "file")


def test_nothing_recognised_says_what_was_looked_for_and_found(tmp_path):
    with pytest.raises(FileNotFoundError, match="found an empty folder"):
        open_pixels(tmp_path)
    for name in "abcdefghijkl":
        (tmp_path / name).mkdir()
    (tmp_path / "train").mkdir()
    with pytest.raises(FileNotFoundError) as caught:
        open_pixels(tmp_path)
    text = str(caught.value)
    assert text.startswith(f"no known data set in {tmp_path}; looked for\n")
    assert "\n  cub-200-2011: no images.txt, no image_class_labels.txt" in text
    assert "\n  stanford-dogs: no train_list.mat or lists/train_list.mat, no" in text
    assert "no cars_train, no cars_test\n" in text
    assert "\n  image-folder: no val or valid or validation or test\n" in text
    assert text.endswith("\nfound a/, b/, c/, d/, e/, f/, g/, h/, i/, j/ and 3 more")


def test_the_folder_below_is_suggested(tmp_path):
    images.make_cub(tmp_path / "CUB_200_2011", 1, 1)
    with pytest.raises(FileNotFoundError, match=r"try .*/CUB_200_2011, which is cub-200-2011"):
        open_pixels(tmp_path)


def test_cars_without_test_labels(tmp_path):
    root = images.make_cars(tmp_path, test_list="devkit/cars_test_annos.mat")
    message = "stanford-cars: no cars_test_annos_withlabels.mat or devkit/cars_test_annos_with"
    with pytest.raises(FileNotFoundError, match=message):
        open_pixels(root)


def test_two_layouts_in_one_folder(tmp_path):
    images.make_cub(tmp_path, 1, 1)
    images.make_image_tree(tmp_path)
    with pytest.raises(ValueError, match="looks like cub-200-2011 and image-folder; move"):
        open_pixels(tmp_path)


def test_no_images_for_validation(tmp_path):
    root = images.make_cub(tmp_path, 1, 1)
    (root / "train_test_split.txt").write_text("1 1\n2 1\n")
    with pytest.raises(ValueError, match=r"\(cub-200-2011\) lists no validation images"):
        open_pixels(root)


def test_unknown_choice_for_bad_images(tmp_path):
    with pytest.raises(ValueError, match="on_bad_image must be raise or skip, got 'ignore'"):
        open_pixels(tmp_path, on_bad_image="ignore")


# --------------------------------------------------------------------------------------------------
# Bad images in a data set


@pytest.mark.parametrize("name", [n for n in images.MAKERS if n not in images.HELD])
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
        expected = [
            (path, label)
            for path, label in zip(paths(before), before.labels.tolist(), strict=True)
            if path not in bad
        ]
        assert list(zip(paths(after), after.labels.tolist(), strict=True)) == expected
        for index in range(len(after)):
            image, label = after[index]
            assert images.label_of(image.numpy(), 3) == label


def test_raise_is_the_default_and_comes_when_the_image_is_needed(tmp_path):
    splits = open_pixels(images.make_image_tree(tmp_path))
    os.truncate(splits.train.path(2), 0)
    splits.train[1]
    with pytest.raises(ValueError, match=r"train/class00/2.jpg \(the file is empty\)"):
        open_pixels(tmp_path).train[2]


def test_missing_files_of_a_list_are_not_skipped(tmp_path):
    root = images.make_dogs(tmp_path)
    shutil.rmtree(root / "Images" / "n02080001-Breed_1")
    assert len(open_pixels(root).train) == 12
    with pytest.raises(FileNotFoundError, match=r"n02080001-Breed_1/n02080001_0\.jpg"):
        open_pixels(root, on_bad_image="skip")
