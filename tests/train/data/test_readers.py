"""Lists that are wrong, and the trees of folders."""

import pytest
from scipy.io import savemat

import images
from rootpool.train.data.layouts import LAYOUTS
from rootpool.train.data.readers import inside


def read(root):
    name = {maker.__name__: name for name, maker in images.MAKERS.items()}[root.name]
    (layout,) = [layout for layout in LAYOUTS if layout.name == name]
    return layout.read(*layout.find(root))


@pytest.fixture
def make(tmp_path):
    """Make a data set in a folder that is called like its maker."""
    return lambda maker, *size: maker(tmp_path / maker.__name__, *size)


def replace(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


# --------------------------------------------------------------------------------------------------
# Folders


def test_class_folders_differ(make):
    root = make(images.make_image_tree, ["a", "b", "c"])
    (root / "val" / "b").rename(root / "val" / "B")
    (root / "val" / "d").mkdir()
    with pytest.raises(
        ValueError, match=r"same class folders; only in train: b; only in val: B, d"
    ):
        read(root)


def test_many_differences_are_cut_short(make):
    root = make(images.make_image_tree, 1, 1)
    for k in range(13):
        (root / "train" / f"x{k:02d}").mkdir()
    with pytest.raises(ValueError, match=r"train: x00, .*, x09 and 3 more; only in val: none"):
        read(root)


def test_folder_without_classes_and_class_without_images(make):
    root = make(images.make_image_tree, ["a", "b"], 1)
    (root / "train" / "b" / "0.jpg").rename(root / "train" / "b" / "0.txt")
    with pytest.raises(ValueError, match=r"no images in .*b; remove the folder, or put images"):
        read(root)
    for name in ("a", "b"):
        (root / "train" / name).rename(root / name)
    with pytest.raises(FileNotFoundError, match=r"train has no class folders; expected .*<image>"):
        read(root)


def test_hidden_folders_and_other_files_are_no_classes_and_no_images(make):
    root = make(images.make_image_tree, ["a", "b"], 1)
    (root / "train" / ".ipynb_checkpoints").mkdir()
    (root / "train" / "README.txt").touch()
    (root / "train" / "a" / "Thumbs.db").touch()
    listing = read(root)
    assert listing.classes == ("a", "b")
    assert len(listing.train) == 2


def test_folders_within_classes_and_gifs_count(make):
    root = make(images.make_image_tree, ["a"], 1)
    images.save_image(root / "train" / "a" / "more" / "1.JPEG", 0, 1, (4, 4), 0)
    images.save_image(root / "train" / "a" / "2.gif", 0, 1, (4, 4), 0)
    assert [label for _, label in read(root).train] == [0, 0, 0]


def test_links_are_followed(make, tmp_path):
    root = make(images.make_image_tree, ["a", "b"], 1)
    elsewhere = tmp_path / "other disk"
    (root / "train" / "a").rename(elsewhere)
    (root / "train" / "a").symlink_to(elsewhere)
    assert read(root).train[0] == (str(root / "train" / "a" / "0.jpg"), 0)


# --------------------------------------------------------------------------------------------------
# CUB


def test_labels_follow_the_class_list_not_the_numbers(make):
    root = make(images.make_cub, 2, 1)
    (root / "classes.txt").write_text("2 second\n1 first\n")
    listing = read(root)
    assert listing.classes == ("second", "first")
    assert [label for _, label in listing.train] == [1, 0]


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("image_class_labels.txt", "3 2\n", "", "image_class_labels.txt and images.txt .*: 3"),
        ("train_test_split.txt", "4 0\n", "4 0\n9 1\n", "split.txt and images.txt list .*: 9"),
        ("image_class_labels.txt", "3 2\n", "3 7\n", "classes that classes.txt does not name: 7"),
        ("train_test_split.txt", "4 0\n", "4 2\n", r"must say 1 \(train\) or 0 \(test\), got 2"),
        ("images.txt", "2 001", "1 001", r"images.txt, line 2 repeats a number, got '1 001.Bird"),
        (
            "images.txt",
            "2 001",
            "001",
            r"images.txt, line 2 must be a number and a value, got '001",
        ),
        (
            "images.txt",
            "001.Bird_0/",
            "../001.Bird_0/",
            "images.txt names '../001.Bird_0/Bird_0_00",
        ),
    ],
)
def test_wrong_lists_of_birds(file, old, new, message, make):
    root = make(images.make_cub, 2, 1)
    replace(root / file, old, new)
    with pytest.raises(ValueError, match=message):
        read(root)


def test_blank_lines_and_spaces_in_names(make):
    root = make(images.make_cub, 1, 1)
    (root / "images.txt").write_text("1 a b/c d.jpg\r\n\r\n2 e.jpg\r\n\r\n", newline="")
    assert read(root).train == [(str(root / "images" / "a b" / "c d.jpg"), 0)]


# --------------------------------------------------------------------------------------------------
# Dogs and Cars


@pytest.mark.parametrize(
    ("files", "labels", "message"),
    [
        (["a/1.jpg", "b/1.jpg"], [1, 1], "train_list.mat gives class 1 two folders, a and b"),
        (["a/1.jpg", "a/2.jpg"], [1, 2], "must number the class folders 1, 2, .* got 1: a, 2: a"),
        (["a/1.jpg", "b/1.jpg"], [1, 3], "must number the class folders 1, 2, .* got 1: a, 3: b"),
        (["a/1.jpg", "b/1.jpg"], [0, 1], "train_list.mat must count classes from 1, got 0"),
        (["a/1.jpg"], [1, 2], "train_list.mat has 1 files and 2 labels"),
        (
            ["a/../../1.jpg"],
            [1],
            "train_list.mat names 'a/../../1.jpg', which is not a path within",
        ),
        (["/etc/1.jpg"], [1], "names '/etc/1.jpg', which is not a path within"),
    ],
)
def test_wrong_lists_of_dogs(files, labels, message, make):
    root = make(images.make_dogs)
    images.write_dog_list(root / "train_list.mat", files, labels)
    images.write_dog_list(root / "test_list.mat", ["a/9.jpg"], [1])
    with pytest.raises(ValueError, match=message):
        read(root)


def test_one_dog_each(make):
    root = make(images.make_dogs)
    images.write_dog_list(root / "train_list.mat", ["a/1.jpg"], [1])
    images.write_dog_list(root / "test_list.mat", ["a/9.jpg"], [1])
    listing = read(root)
    assert listing.train == [(str(root / "Images" / "a" / "1.jpg"), 0)]
    assert listing.classes == ("a",)


def test_damaged_and_foreign_matlab_files(make):
    root = make(images.make_dogs)
    savemat(root / "train_list.mat", {"files": [1], "labels": [1]})
    with pytest.raises(ValueError, match=r"train_list.mat has no file_list, but files, labels"):
        read(root)
    for content in (b"", b"MATLAB 5.0 MAT-file", bytes(range(256)) * 4):
        (root / "train_list.mat").write_bytes(content)
        with pytest.raises(ValueError, match=r"cannot read .*train_list.mat as a MATLAB file"):
            read(root)


def test_wrong_lists_of_cars(make):
    root = make(images.make_cars, 2, 1)
    target = root / "devkit" / "cars_train_annos.mat"
    images.write_car_list(target, ["1.jpg"], None)
    with pytest.raises(ValueError, match=r"annotations in .*cars_train_annos.mat have no class"):
        read(root)
    images.write_car_list(target, ["1.jpg"], [3])
    with pytest.raises(ValueError, match=r"beyond the 2 that cars_meta\.mat names"):
        read(root)
    savemat(target, {"annotations": [1, 2]})
    with pytest.raises(ValueError, match=r"have no class and no fname"):
        read(root)
    images.write_car_list(target, [r"..\1.jpg"], [1])
    with pytest.raises(ValueError, match=r"which is not a path within"):
        read(root)


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/x", r"..\x", r"C:\x", "a\0b"])
def test_paths_that_lead_out_of_the_root(name, tmp_path):
    with pytest.raises(ValueError, match=r"list.txt names .* which is not a path within"):
        inside(tmp_path, name, tmp_path / "list.txt")


@pytest.mark.parametrize("name", ["x", "a/b.c/..x", "a b/x"])
def test_paths_within_the_root(name, tmp_path):
    assert inside(tmp_path, name, tmp_path / "list.txt") == f"{tmp_path}/{name}"
