"""Mistakes of users: found before an epoch is lost, and never silently accepted."""

import pytest

from images import make_image_tree
from rootpool.train import SettingsError, merge, prepare, resolve
from small_runs import NUMBERED, run

TINY = {"backbone": "test_resnet", "reduction": 8, "method": "exact", "drop_rate": 0.0}


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return make_image_tree(tmp_path_factory.mktemp("photos"))


def on_photos(photos, **parts):
    data = {"root": str(photos), "resize": 64, "crop": 64}
    return merge(NUMBERED, {"model": TINY, "data": data}, parts)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"data": {"augment": "randaug"}}, "unknown data.augment 'randaug'; did you mean randaug"),
        ({"data": {"transform": "imagent"}}, "unknown data.transform 'imagent'; did you mean imag"),
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
            {"model": {"backbone_options": {"drop_rate": 1}}},
            "drop_rate, which the other settings of",
        ),
        (
            {"model": {"backbone_options": {"depth": 3}}},
            "{'depth': 3} do not suit test_resnet: .*dep",
        ),
        (
            {"model": {"backbone_options": {"weights": "packaged"}}},
            "test_resnet are in no package.* or model.backbone_options=null, and its own model.freeze",
        ),
        ({"model": {"power": 0.5}}, "model.power=0.5 needs model.length"),
        (
            {"trainer": {"devices": 0}},
            "the settings of the trainer cannot be used here: .*devices=0",
        ),
        ({"loggers": ["tensorbord"]}, "unknown logger 'tensorbord'; did you mean tensorboard"),
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
            SettingsError, match=r"notes\.txt is a file, not a folder; choose anoth"
        ):
            prepare(resolve(on_photos(photos)), tmp_path / output, progress=False)


FEW = "4 positions are few for a covariance. Try a larger data.crop"
LATE = "not decayed at all of model.milestones=[2, 9]: the training ends after 3 epochs"
TOKENS = {"img_size": 64, "tokens": "class+patches"}


@pytest.mark.parametrize(
    ("model", "shape", "note"),
    [
        ({"backbone": "resnet10t"}, (512, 2, 2), FEW),
        ({"backbone": "resnet10t", "method": "gap", "reduction": None}, (512, 2, 2), ""),
        ({"backbone": "test_vit", "backbone_options": TOKENS}, (64, 16), ""),  # the larger map
        ({"milestones": [2, 9], "method": "gap", "reduction": None}, (96, 2, 2), LATE),
    ],
)
def test_what_is_said_without_a_mistake(model, shape, note, photos, tmp_path):
    made = prepare(resolve(on_photos(photos, model=model)), tmp_path, progress=False)
    assert made.map_shape == shape
    assert [note in found for found in made.notes] == [True] * bool(note)


def test_data_of_one_class(tmp_path):
    data = make_image_tree(tmp_path / "data", classes=1)
    with pytest.raises(ValueError, match="has one class, class00; a classifier needs two"):
        prepare(resolve(on_photos(data)), tmp_path / "run", progress=False)


@pytest.mark.slow
def test_a_run_that_fails_before_its_first_step_leaves_the_folder_free(tmp_path):
    """And once it is there, it is continued with its own classes alone."""
    data = make_image_tree(tmp_path / "data")
    good = {file: file.read_bytes() for file in (data / "train").rglob("*.jpg")}
    for file in good:
        file.write_bytes(b"not an image")
    config = on_photos(data, trainer={"max_epochs": 1, "limit_train_batches": 1})
    with pytest.raises(ValueError, match="cannot decode"):
        run(tmp_path / "run", config=config)
    assert not (tmp_path / "run" / "config.yaml").exists()
    for file, content in good.items():
        file.write_bytes(content)
    run(tmp_path / "run", config=config)  # not refused
    two = make_image_tree(tmp_path / "two", classes=2)
    with pytest.raises(SettingsError, match="knows 3 classes, the data has 2"):
        run(tmp_path / "run", config=merge(config, {"data": {"root": str(two)}}), resume=True)
