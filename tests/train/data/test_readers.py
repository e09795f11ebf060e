"""Lists that are wrong, trees of folders, and folders without a split."""

import os

import pytest
import torch

import images
from rootpool.cli import main
from rootpool.train import DataSettings, ImageData, resolve
from rootpool.train.data import (
    LAYOUTS,
    ImageSplits,
    SomeImages,
    TensorImages,
    draw,
    hold_out,
    open_splits,
)


def read(root):
    name = {maker.__name__: name for name, maker in images.MAKERS.items()}[root.name]
    (layout,) = [layout for layout in LAYOUTS if layout.name == name]
    return layout.read(*layout.find(root))


@pytest.fixture
def make(tmp_path):
    """Make a data set in a folder that is called like its maker."""
    return lambda maker, *size: maker(tmp_path / maker.__name__, *size)


def test_what_counts_as_a_class_and_as_an_image(make, tmp_path):
    """Not hidden folders and other files; folders within classes, GIFs, and what a link leads to."""
    root = make(images.make_image_tree, ["a", "b"], 1)
    (root / "train" / ".ipynb_checkpoints").mkdir()
    (root / "train" / "README.txt").touch()
    (root / "train" / "a" / "Thumbs.db").touch()
    images.save_image(root / "train" / "a" / "more" / "1.JPEG", 0, 1, (4, 4), 0)
    images.save_image(root / "train" / "a" / "2.gif", 0, 1, (4, 4), 0)
    (root / "train" / "b").rename(tmp_path / "other disk")
    (root / "train" / "b").symlink_to(tmp_path / "other disk")
    listing = read(root)
    assert listing.classes == ("a", "b")
    assert [label for _, label in listing.train] == [0, 0, 0, 1]
    assert listing.train[-1][0] == str(root / "train" / "b" / "0.jpg")


# --------------------------------------------------------------------------------------------------
# Folders without a split


def opened(folder, **options):
    return open_splits(folder, train_transform=None, val_transform=None, **options)


def paths(dataset) -> set[str]:
    return {dataset.path(k) for k in range(len(dataset))}


def test_a_flat_folder_is_split_by_class_and_seed(tmp_path):
    images.make_image_tree(tmp_path, per_class=10, splits=("",))
    splits = opened(tmp_path, val_share=0.3, seed=1)
    assert (splits.name, splits.classes) == ("flat-folder", tuple(images.class_names(3)))
    assert splits.train.labels.bincount().tolist() == [7, 7, 7]
    assert splits.val.labels.bincount().tolist() == [3, 3, 3]
    assert not paths(splits.train) & paths(splits.val)
    assert paths(opened(tmp_path, val_share=0.3, seed=1).val) == paths(splits.val)
    assert paths(opened(tmp_path, val_share=0.3, seed=2).val) != paths(splits.val)
    assert opened(tmp_path, val_share=0.99).train.labels.bincount().tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="share for validation must be between 0 and 1, got 1"):
        opened(tmp_path, val_share=1)


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (["train/1.jpg", "train/2.jpg", "bus/1.jpg", "bus/2.jpg"], ("bus", "train")),
        ([f"{name}/{k}.jpg" for name in ("a", "train", "val") for k in (1, 2)], ("a", "train", "val")),
        (["a/more/1.jpg", "a/more/2.jpg", "b/x/y/1.jpg", "b/2.gif"], ("a", "b")),
        (["a/more/1.jpg", "a/more/2.jpg", "b/x/y/1.jpg", "b/x/2.jpg"], ("a", "b")),
        (["a/1.jpg"], r"a has one image; a split .* needs two"),
        (["train/a/1.jpg", "train/a/2.jpg", "train/b/1.jpg"], r"try .*train, which is flat-folder"),
        (["train/a/1.jpg", "testing/a/2.jpg"], r"image-folder: no val or valid"),
        (["train/1.jpg", "test/2.jpg"], "train has no class folders"),
        (["cars_train/1.jpg", "cars_test/2.jpg"], "stanford-cars: no cars_train_annos.mat"),
    ],
)  # fmt: skip
def test_ordinary_folders(files, found, tmp_path):
    """Classes may have the names of splits; what is half of a known data set is no class."""
    for file in files:
        images.save_image(tmp_path / file, 0, 1, (4, 4), 0)
    if isinstance(found, str):
        with pytest.raises((ValueError, FileNotFoundError), match=found):
            opened(tmp_path)
    else:
        splits = opened(tmp_path)
        assert (splits.name, splits.classes) == ("flat-folder", found)
        assert len(paths(splits.train) | paths(splits.val)) == len(files)


@pytest.mark.parametrize("name", ["val", "valid", "validation", "test"])
def test_names_of_the_validation_split(name, tmp_path):
    images.make_image_tree(tmp_path, splits=("train", name))
    images.make_image_tree(tmp_path, splits=("test",), per_class=2)  # the last that is looked for
    assert len(opened(tmp_path).val) == 12


def test_one_draw_serves_fractions_and_held_out_images():
    labels = torch.tensor([0] * 10 + [1] * 40 + [2])
    whole = TensorImages(torch.arange(51.0).reshape(51, 1, 1, 1), labels, lambda image: image)
    drawn = draw(labels, 0.2, seed=0)
    some = SomeImages(whole, drawn)
    assert some.labels.bincount().tolist() == [2, 8, 1]
    assert [int(image) for image, _ in some] == drawn.tolist()
    assert labels[draw(labels, 0.99, seed=0)].bincount().tolist() == [9, 39, 1]
    negated = TensorImages(whole.images, labels, lambda image: -image)
    held = hold_out(ImageSplits(whole, negated, ("a", "b", "c"), ""), 0.2)
    assert torch.equal(held.val.indices, drawn)
    assert sorted([*held.train.indices.tolist(), *drawn.tolist()]) == list(range(51))
    assert [-int(image) for image, _ in held.val] == drawn.tolist()  # as validation sees them
    data = ImageData(DataSettings("photo-patches", fraction=0.1))
    assert (len(data.splits.train), len(data.splits.val)) == (18 * 11, 3600)


def test_images_as_the_pretrained_network_expects_them(tmp_path):
    images.make_image_tree(tmp_path)
    data = ImageData(DataSettings(str(tmp_path), statistics="pretrained", crop=32))
    data.adopt("vit_tiny_patch16_224")
    assert (data.hparams["mean"], data.hparams["resize"]) == ([0.5, 0.5, 0.5], 248)
    assert data.hparams["crop"] == 32  # what is given stays
    image, _ = data.splits.val[0]
    assert image.shape == (3, 32, 32)
    assert image.min() >= -1  # (x - 0.5) / 0.5 of [0, 1]
    assert image.max() <= 1
    assert resolve({"data": {"statistics": "pretrained"}}).data.mean is None


# --------------------------------------------------------------------------------------------------
# CUB, Dogs and Cars


def test_labels_follow_the_class_list_and_names_may_have_spaces(make):
    root = make(images.make_cub, 2, 1)
    (root / "classes.txt").write_text("2 second\n1 first\n")
    listing = read(root)
    assert listing.classes == ("second", "first")
    assert [label for _, label in listing.train] == [1, 0]
    (root / "images.txt").write_text("1 a b/c d.jpg\r\n\r\n2 e\r\n3 f\r\n4 g\r\n\r\n", newline="")
    assert read(root).train[0] == (str(root / "images" / "a b" / "c d.jpg"), 1)


def test_lists_of_dogs(make):
    root = make(images.make_dogs)
    images.write_dog_list(root / "train_list.mat", ["b/1.jpg"], [1])
    images.write_dog_list(root / "test_list.mat", ["a/9.jpg"], [2])
    listing = read(root)
    assert listing.train == [(str(root / "Images" / "b" / "1.jpg"), 1)]
    assert listing.classes == ("a", "b")


# --------------------------------------------------------------------------------------------------
# A bad image, from the command line to the loading process and back


@pytest.mark.slow
def test_the_command_names_a_bad_image_or_goes_on_without_it(tmp_path, capsys):
    root = images.make_image_tree(tmp_path / "data", classes=2, per_class=3)
    bad = root / "train" / "class01" / "1.jpg"
    os.truncate(bad, 400)
    run, options = str(tmp_path / "run"), ["data.batch_size=5", "data.workers=1", "data.resize=32"]
    options += [
        "model.backbone=test_resnet",
        "model.milestones=null",
        "data.crop=32",
        "trainer.max_epochs=1",
    ]
    arguments = ["train", "resnet50-imagenet", "--method=gap", f"--data={root}", *options]
    assert main([*arguments, f"--output={run}", "trainer.num_sanity_val_steps=0"]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"rootpool: cannot decode {bad}")
    assert "--on-bad-image skip" in error
    assert main([*arguments, f"--output={run}", "--on-bad-image=skip"]) == 0
    assert str(bad) in capsys.readouterr().err
    # A run that was trained so is evaluated so, and an option decides otherwise.
    for flags, code in (([], 0), (["--on-bad-image=raise"], 1)):
        assert main(["evaluate", run, f"--data={root / 'train'}", *flags]) == code
        assert str(bad) in capsys.readouterr().err
