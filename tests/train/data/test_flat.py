"""Folders of classes without a split, other names of splits, and parts of a data set."""

import pytest
import torch

from images import class_names, make_image_tree
from rootpool.train import DataSettings, ImageData, resolve
from rootpool.train.data import TensorImages, open_splits, part_of


def opened(folder, **options):
    return open_splits(folder, train_transform=None, val_transform=None, **options)


def paths(images) -> set[str]:
    return {images.path(k) for k in range(len(images))}


def test_a_flat_folder_is_split_by_class_and_seed(tmp_path):
    make_image_tree(tmp_path, per_class=10, splits=("",))
    splits = opened(tmp_path, val_share=0.3, seed=1)
    assert (splits.name, splits.classes) == ("flat-folder", tuple(class_names(3)))
    assert splits.train.labels.bincount().tolist() == [7, 7, 7]
    assert splits.val.labels.bincount().tolist() == [3, 3, 3]
    assert not paths(splits.train) & paths(splits.val)
    assert paths(opened(tmp_path, val_share=0.3, seed=1).val) == paths(splits.val)
    assert paths(opened(tmp_path, val_share=0.3, seed=2).val) != paths(splits.val)


def test_flat_folders_that_cannot_be_split(tmp_path):
    make_image_tree(tmp_path, per_class=1, splits=("",))
    with pytest.raises(
        ValueError, match=r"0\.jpg is the only image of its class; a split .* needs"
    ):
        opened(tmp_path)
    with pytest.raises(ValueError, match="share for validation must be between 0 and 1, got 1"):
        opened(tmp_path, val_share=1)


@pytest.mark.parametrize("name", ["val", "valid", "validation", "test"])
def test_names_of_the_validation_split(name, tmp_path):
    make_image_tree(tmp_path, splits=("train", name))
    make_image_tree(tmp_path, splits=("test",), per_class=2)  # the last that is looked for
    assert len(opened(tmp_path).val) == 12


def test_a_fraction_of_the_training_images_has_all_classes():
    labels = torch.tensor([0] * 10 + [1] * 40 + [2])
    images = TensorImages(torch.arange(51.0).reshape(51, 1, 1, 1), labels, lambda image: image)
    some = part_of(images, 0.2, seed=0)
    assert some.labels.bincount().tolist() == [2, 8, 1]
    assert [int(labels[int(image)]) for image, _ in some] == some.labels.tolist()
    data = ImageData(DataSettings("photo-patches", fraction=0.1))
    whole = ImageData(DataSettings("photo-patches")).splits
    assert len(data.splits.train) == pytest.approx(0.1 * len(whole.train), rel=0.05)
    assert len(data.splits.val) == len(whole.val)


def test_images_as_the_pretrained_network_expects_them(tmp_path):
    make_image_tree(tmp_path)
    data = ImageData(DataSettings(str(tmp_path), statistics="pretrained", crop=32))
    data.adopt("vit_tiny_patch16_224")
    assert (data.hparams["mean"], data.hparams["resize"]) == ([0.5, 0.5, 0.5], 248)
    assert data.hparams["crop"] == 32  # what is given stays
    image, _ = data.splits.val[0]
    assert image.shape == (3, 32, 32)
    assert image.min() >= -1  # (x - 0.5) / 0.5 of [0, 1]
    assert image.max() <= 1
    assert resolve({"data": {"statistics": "pretrained"}}).data.mean is None
