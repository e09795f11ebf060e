"""Mistakes of users: found before an epoch is lost, and never silently accepted."""

import pytest

from images import make_image_tree
from rootpool.train import SettingsError, prepare, resolve
from small_runs import typed

TINY = "model.backbone=test_resnet ; model.reduction=8 ; model.method=exact ; model.drop_rate=0.0"


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return make_image_tree(tmp_path_factory.mktemp("photos"))


def on_photos(photos, text=""):
    config = typed(f"{TINY} ; data.root={photos} ; data.resize=64 ; data.crop=64")
    return resolve(typed(text, config))


MISTAKES = {
    "data.augment=randaug": "unknown data.augment 'randaug'; did you mean randaugment",
    "data.transform=imagent": "unknown data.transform 'imagent'; did you mean imagenet",
    "data.root=nowhere": "data folder nowhere does not exist; give the folder",
    "model.optimizer=admw": "unknown model.optimizer 'admw'; did you mean adamw",
    "model.method=foo": "unknown method 'foo'\nknown are exact, [^\n]*\n",
    "model.backbone=vit_tiny_patch16_224 ; model.backbone_options={depth: 1}": "vit_tiny_patch16_224 does "
    "not take images of 3 x 64 x 64 .*made for 3 x 224 x 224",
    "model.backbone=resnet10t ; data.resize=32 ; data.crop=32": "leave one position of the map of "
    "resnet10t, which has no covariance: nothing would be learned",
    "model.backbone_options.drop_rate=1": "drop_rate, which the other settings of",
    "model.backbone_options.depth=3": "{'depth': 3} do not suit test_resnet: .*depth",
    "model.backbone_options.weights=packaged": "test_resnet are in no package.* or "
    "model.backbone_options=null, and its own model.freeze",
    "model.power=0.5": "model.power=0.5 needs model.length",
    "trainer.devices=0": "the settings of the trainer cannot be used here: .*devices=0",
    "loggers=[tensorbord]": "unknown logger 'tensorbord'; did you mean tensorboard",
}


@pytest.mark.parametrize(("text", "message"), MISTAKES.items(), ids=MISTAKES)
def test_what_cannot_work_is_said_before_that_the_folder_has_a_run(text, message, photos, tmp_path):
    (tmp_path / "config.yaml").touch()
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        prepare(on_photos(photos, text), tmp_path, progress=False)
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]


def test_data_of_one_class_and_a_file_in_the_place_of_the_output(photos, tmp_path):
    (tmp_path / "notes.txt").touch()
    for output in ("notes.txt", "notes.txt/run"):
        with pytest.raises(SettingsError, match=r"notes\.txt is a file, not a folder; choose"):
            prepare(on_photos(photos), tmp_path / output, progress=False)
    data = make_image_tree(tmp_path / "data", classes=1)
    with pytest.raises(SettingsError, match="has one class, class00; a classifier needs two"):
        prepare(on_photos(data), tmp_path / "run", progress=False)


FEW = "4 positions are few for a covariance. Try a larger data.crop"
LATE = "not decayed at all of model.milestones=[2, 9]: the training ends after 3 epochs"
TOKENS = "model.backbone=test_vit ; model.backbone_options={img_size: 64, tokens: class+patches}"
GAP = "model.method=gap ; model.reduction=null"


@pytest.mark.parametrize(
    ("text", "shape", "note"),
    [
        ("model.backbone=resnet10t", (512, 2, 2), FEW),
        (f"model.backbone=resnet10t ; {GAP}", (512, 2, 2), ""),
        (TOKENS, (64, 16), ""),  # the larger map
        (f"model.milestones=[2, 9] ; {GAP}", (96, 2, 2), LATE),
    ],
)
def test_what_is_said_without_a_mistake(text, shape, note, photos, tmp_path):
    made = prepare(on_photos(photos, text), tmp_path, progress=False)
    assert made.map_shape == shape
    assert [note in found for found in made.notes] == [True] * bool(note)


@pytest.mark.slow
def test_a_run_that_fails_before_its_first_step_leaves_the_folder_free(tmp_path):
    """And once it is there, it is continued with its own classes alone."""
    data = make_image_tree(tmp_path / "data")
    good = {file: file.read_bytes() for file in (data / "train").rglob("*.jpg")}
    for file in good:
        file.write_bytes(b"not an image")
    short = "trainer.max_epochs=1 ; trainer.limit_train_batches=1"
    output = tmp_path / "run"
    with pytest.raises(ValueError, match="cannot decode"):
        prepare(on_photos(data, short), output, progress=False).fit()
    assert not (output / "config.yaml").exists()
    for file, content in good.items():
        file.write_bytes(content)
    prepare(on_photos(data, short), output, progress=False).fit()  # not refused
    two = make_image_tree(tmp_path / "two", classes=2)
    with pytest.raises(SettingsError, match="knows 3 classes, the data has 2"):
        prepare(on_photos(two, short), output, resume=True, progress=False)
