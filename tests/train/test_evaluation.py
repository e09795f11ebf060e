"""What is done with a trained network: files that are found, and files that are written."""

import pytest

from images import make_image_tree
from rootpool.train import SettingsError, merge
from rootpool.train.evaluation import find_images, load_run
from rootpool.train.export import export_run
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
