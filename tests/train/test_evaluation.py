"""What is done with a trained network: files that are found, and files that are written."""

import os

import pytest

from images import make_image_tree
from rootpool.cli import main
from rootpool.nn import method_names, resolve_method
from rootpool.train import SettingsError, merge
from rootpool.train.evaluation import find_images, load_run
from rootpool.train.export import _is_root, export_run
from small_runs import NUMBERED, run


def test_images_in_folders_behind_links_are_found(tmp_path):
    elsewhere = make_image_tree(tmp_path / "elsewhere", classes=2, per_class=2, splits=("",))
    folder = make_image_tree(tmp_path / "here", classes=1, per_class=1, splits=("",))
    (folder / "linked").symlink_to(elsewhere)
    found = find_images([folder])
    assert [str(path.relative_to(folder)) for path in found] == [
        "class00/0.jpg",
        *(f"linked/class0{k}/{j}.jpg" for k in (0, 1) for j in (0, 1)),
    ]
    assert find_images([found[0], elsewhere]) == [found[0], *sorted(elsewhere.rglob("*.jpg"))]
    (tmp_path / "empty").mkdir()
    for path, message in (("empty", "there are no images in"), ("none", "no image or folder")):
        with pytest.raises(SettingsError, match=message):
            find_images([tmp_path / path])


@pytest.mark.slow
def test_a_table_of_predictions_is_whole_or_as_it_was(tmp_path, monkeypatch):
    photos = make_image_tree(tmp_path / "photos", size=(16, 16))
    data = {"root": str(photos), "resize": 16, "crop": 16}
    network = {"backbone": "test_resnet", "drop_rate": 0.0}
    run(tmp_path / "run", config=merge(NUMBERED, {"model": network, "data": data}))
    table = tmp_path / "guesses.csv"
    command = ["predict", str(tmp_path / "run"), str(photos), f"--csv={table}"]
    assert main(command) == 0
    before = table.read_bytes()
    assert len(before.splitlines()) == 25
    os.truncate(photos / "val" / "class02" / "3.jpg", 100)  # the last
    assert main(command) == 1
    assert table.read_bytes() == before
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["guesses.csv", "photos", "run"]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["log", "brownian"])
def test_what_cannot_be_exported_is_refused_at_once(method, tmp_path, monkeypatch):
    run(tmp_path, config=merge(NUMBERED, {"model": {"method": method}}))
    monkeypatch.setattr("rootpool.train.export._images", None)  # called before anything is exported
    (tmp_path / "model.onnx").write_text("good")
    with pytest.raises(
        SettingsError, match=f"{method} is neither made of matrix products nor a squ"
    ):
        export_run(load_run(tmp_path), tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").read_text() == "good"


@pytest.mark.parametrize("method", method_names())
def test_which_methods_are_roots(method):
    others = {"seb", "box-cox", "log-cholesky", "brownian", "isice", "covariance", "log"}
    assert _is_root(resolve_method(method)) == (method not in others)
