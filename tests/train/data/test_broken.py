"""Data sets of every layout, each broken in one way: the message says what is wrong, and where."""

import shutil

import pytest
from scipy.io import savemat

import images
from rootpool.train.data import open_splits
from rootpool.train.data.readers import inside

SMALL = {"cub-200-2011": (2, 1), "stanford-cars": (2, 1)}


def edit(file, old, new):
    """Change the text of a file."""

    def change(root):
        text = (root / file).read_text(encoding="utf-8")
        assert old in text
        (root / file).write_text(text.replace(old, new, 1), encoding="utf-8")

    return change


def write(file, content):
    return lambda root: (root / file).write_bytes(content)


def dogs(*files):
    return lambda root: images.write_dog_list(root / "train_list.mat", files, [1] * len(files))


def cars(files, labels):
    return lambda root: images.write_car_list(
        root / "devkit" / "cars_train_annos.mat", files, labels
    )


def move(old, new):
    return lambda root: (root / old).rename(root / new)


def more_classes(root):
    (root / "val" / "class01").rename(root / "val" / "B")
    for k in range(11):
        (root / "train" / f"x{k:02d}").mkdir()


def no_class_folders(root):
    shutil.rmtree(root / "train")
    (root / "train").mkdir()


LABELS, SPLIT = "image_class_labels.txt", "train_test_split.txt"
BROKEN = [
    ("cub-200-2011", edit(LABELS, "3 2\n", ""), "image_class_labels.txt and images.txt .*: 3"),
    ("cub-200-2011", edit(SPLIT, "4 0\n", "4 0\n9 1\n"), "split.txt and images.txt list .*: 9"),
    ("cub-200-2011", edit(LABELS, "3 2\n", "3 7\n"), "that classes.txt does not name: 7"),
    ("cub-200-2011", edit(SPLIT, "4 0\n", "4 2\n"), r"say 1 \(train\) or 0 \(test\), got 2"),
    ("cub-200-2011", edit("images.txt", "2 001", "1 001"), "line 2 repeats a number, got '1 001.B"),
    ("cub-200-2011", edit("images.txt", "2 001", "001"), "2 must be a number and a value, got '001"),
    ("cub-200-2011", edit("images.txt", "001.Bird_0/", "../001.Bird_0/"), "names '../001.Bird_0/Bi"),
    ("cub-200-2011", write(SPLIT, b"1 1\n2 1\n3 1\n4 1\n"), r"\(cub-200-2011\) lists no validation"),
    ("cub-200-2011", images.make_image_tree, "looks like cub-200-2011 and image-folder; move"),
    ("stanford-dogs", dogs("a/../../1.jpg"), "train_list.mat names 'a/../../1.jpg', which is not"),
    ("stanford-dogs", lambda root: savemat(root / "train_list.mat", {"files": [1], "labels": [1]}),
     r"train_list.mat has no file_list, but files, labels"),
    *(
        ("stanford-dogs", write("train_list.mat", content), "cannot read .*train_list.mat as a MATLA")
        for content in (b"", b"MATLAB 5.0 MAT-file", bytes(range(256)) * 4)
    ),
    ("stanford-cars", cars(["1.jpg"], None), "annotations in .*cars_train_annos.mat have no class"),
    ("stanford-cars", cars(["1.jpg", "2.jpg"], [3, 0]), r"cars_meta\.mat does not name: \[0, 3\]"),
    ("stanford-cars", cars([r"..\1.jpg"], [1]), "which is not a path within"),
    ("stanford-cars", move("cars_test_annos_withlabels.mat", "devkit/cars_test_annos.mat"),
     "stanford-cars: no cars_test_annos_withlabels.mat or devkit/cars_test_annos_with"),
    ("image-folder", more_classes, "only in train: class01, .*, x08 and 2 more; only in val: B"),
    ("image-folder", lambda root: [path.rename(path.with_suffix(".txt")) for path in
     list((root / "train" / "class01").iterdir())], "no images in .*class01; remove the folder, or"),
    ("image-folder", no_class_folders, "train has no class folders; expected .*<image>"),
]  # fmt: skip


@pytest.mark.parametrize(("layout", "break_it", "message"), BROKEN)
def test_what_is_broken_is_named(layout, break_it, message, tmp_path):
    root = images.MAKERS[layout](tmp_path, *SMALL.get(layout, ()))
    break_it(root)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        open_splits(root, train_transform=None, val_transform=None)


def test_nothing_recognised_says_what_was_looked_for_and_found(tmp_path):
    def refused(folder):
        with pytest.raises(FileNotFoundError) as caught:
            open_splits(folder, train_transform=None, val_transform=None)
        return str(caught.value)

    assert "nothing does not exist; give the folder" in refused(tmp_path / "nothing")
    assert refused(tmp_path).endswith("found an empty folder")
    for name in [*"abcdefghijkl", "train"]:
        (tmp_path / name).mkdir()
    text = refused(tmp_path)
    assert text.startswith(f"no known data set in {tmp_path}; looked for\n")
    assert "\n  cub-200-2011: no images.txt, no image_class_labels.txt" in text
    assert "\n  stanford-dogs: no train_list.mat or lists/train_list.mat, no" in text
    assert "\n  image-folder: no val or valid or validation or test\n" in text
    assert text.endswith("\nfound a/, b/, c/, d/, e/, f/, g/, h/, i/, j/ and 3 more")
    (tmp_path / "file").touch()
    assert "file is a file; give the folder" in refused(tmp_path / "file")
    images.make_cub(tmp_path / "CUB", 1, 1)
    assert f"try {tmp_path / 'CUB'}, which is cub-200-2011" in refused(tmp_path)


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/x", r"..\x", r"C:\x", "a\0b"])
def test_paths_that_lead_out_of_the_root(name, tmp_path):
    with pytest.raises(ValueError, match=r"list.txt names .* which is not a path within"):
        inside(tmp_path, name, tmp_path / "list.txt")
    assert inside(tmp_path, "a b/c.d/..x", tmp_path / "list.txt") == f"{tmp_path}/a b/c.d/..x"
