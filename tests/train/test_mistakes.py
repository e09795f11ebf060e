"""Mistakes of users: found before an epoch is lost, and never silently accepted."""

import shutil

import pytest

from images import make_image_tree
from rootpool.train import SettingsError, merge, prepare, resolve
from small_runs import CONFIG, run

PLAIN = merge(CONFIG, {"hybrid": None, "spectrum_every": 0, "save_every": 0})
TINY = {"backbone": "test_resnet", "reduction": 8, "milestones": None}


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return make_image_tree(tmp_path_factory.mktemp("photos"))


def on_photos(photos, **parts):
    data = {"root": str(photos), "resize": 64, "crop": 64, "batch_size": 4, "workers": 0}
    return merge(PLAIN, {"model": TINY, "data": data}, parts)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"data": {"batch_size": 0}}, "data.batch_size must be at least 1, got 0"),
        ({"data": {"fraction": 0.0}}, r"data.fraction must be in \(0, 1\], got"),
        (
            {"data": {"augment": "randaug"}},
            "unknown data.augment 'randaug'; did you mean randaugment",
        ),
        (
            {"data": {"transform": "imagent"}},
            r"unknown data.transform 'imagent'; did you mean imag",
        ),
        ({"data": {"root": "nowhere"}}, "data.root nowhere is not a folder"),
        (
            {"model": {"backbone": "vit_tiny_patch16_224", "backbone_options": {"depth": 1}}},
            r"vit_tiny_patch16_224 does not take images of 3 x 64 x 64 .*made for 3 x 224 x 224",
        ),
        (
            {"model": {"backbone": "resnet10t"}, "data": {"resize": 32, "crop": 32}},
            "leave one position of the map of resnet10t, which has no covariance: nothing would be lea",
        ),
        (
            {"trainer": {"devices": 0}},
            "the settings of the trainer cannot be used here: .*devices=0",
        ),
        ({"loggers": ["tensorbord"]}, "unknown logger 'tensorbord'; did you mean tensorboard"),
        ({"ema": 1.5}, "ema must be between 0 and 1"),
        ({"save_every": -1}, "save_every must be at least 0, got -1"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        (
            {"trainer": {"accumulate_grad_batches": 0}},
            "trainer.accumulate_grad_batches must be at least 1, got 0",
        ),
        (
            {"patience": 2, "trainer": {"limit_val_batches": 0}},
            "patience=2 waits for a lower validation error, and trainer.limit_val_batches=0",
        ),
    ],
)
def test_what_cannot_work_is_said_before_the_training(parts, message, photos, tmp_path):
    with pytest.raises(SettingsError, match=message):
        prepare(resolve(on_photos(photos, **parts)), tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


def test_a_file_in_the_place_of_the_output_is_named_before_the_training(photos, tmp_path):
    (tmp_path / "notes.txt").touch()
    for output in ("notes.txt", "notes.txt/run"):
        with pytest.raises(
            SettingsError, match=r"notes\.txt is a file, not a folder; choose another"
        ):
            prepare(resolve(on_photos(photos)), tmp_path / output, progress=False)


def test_a_class_token_beside_the_patches_is_announced_by_its_larger_map(photos, tmp_path):
    options = {"img_size": 64, "tokens": "class+patches"}
    model = {"backbone": "test_vit", "backbone_options": options}
    prepared = prepare(resolve(on_photos(photos, model=model)), tmp_path, progress=False)
    assert prepared.map_shape == (64, 16)
    assert prepared.notes == []


def test_few_positions_are_said_and_average_pooling_needs_none(photos, tmp_path):
    small = {"data": {"resize": 64, "crop": 64}, "model": {"backbone": "resnet10t"}}
    made = prepare(resolve(on_photos(photos, **small)), tmp_path, progress=False)
    assert made.map_shape == (512, 2, 2)
    assert made.notes[0].startswith("4 positions are few for a covariance. Try a larger data.crop")
    gap = merge(small, {"model": {"method": "gap", "reduction": None}})
    assert not prepare(resolve(on_photos(photos, **gap)), tmp_path, progress=False).notes


def test_milestones_after_the_end_are_said(photos, tmp_path):
    config = on_photos(photos, model={"milestones": [2, 9], "method": "gap", "reduction": None})
    (note,) = prepare(resolve(config), tmp_path, progress=False).notes
    assert "not decayed at all of model.milestones=[2, 9]: the training ends after 4 epochs" in note


def test_data_of_one_class_and_empty_classes(tmp_path):
    make_image_tree(tmp_path / "one", classes=1)
    with pytest.raises(SettingsError, match="has one class, class00; a classifier needs two"):
        prepare(resolve(on_photos(tmp_path / "one")), tmp_path / "run", progress=False)
    make_image_tree(tmp_path / "two", classes=2)
    (tmp_path / "two" / "train" / "empty").mkdir()
    (tmp_path / "two" / "val" / "empty").mkdir()
    with pytest.raises(ValueError, match=r"no images in .*two.train.empty; remove the folder"):
        prepare(resolve(on_photos(tmp_path / "two")), tmp_path / "run", progress=False)


# --------------------------------------------------------------------------------------------------
# Folders of runs


@pytest.mark.slow
def test_a_run_is_continued_only_with_its_classes(photos, tmp_path):
    config = on_photos(photos, trainer={"max_epochs": 1, "limit_train_batches": 1})
    run(tmp_path, config=config)
    two = make_image_tree(tmp_path / "two", classes=2)
    with pytest.raises(SettingsError, match=r"knows 3 classes \(class00.*the data has 2"):
        run(tmp_path, config=merge(config, {"data": {"root": str(two)}}), resume=True)


def test_a_run_that_fails_before_its_first_step_leaves_the_folder_free(photos, tmp_path):
    data = shutil.copytree(photos, tmp_path / "data")
    for file in (data / "train").rglob("*.jpg"):
        file.write_bytes(b"not an image")
    config = on_photos(data, trainer={"max_epochs": 1})
    with pytest.raises(ValueError, match="cannot decode"):
        run(tmp_path / "run", config=config)
    assert not (tmp_path / "run" / "config.yaml").exists()
    prepare(resolve(config), tmp_path / "run", progress=False)  # not refused
