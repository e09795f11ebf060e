"""How to add a data set: a function that lists its files, and one line in a table."""

from pathlib import Path

import pytest

from images import class_names, save_image
from rootpool.cli import main
from rootpool.train.data import LAYOUTS, Layout
from rootpool.train.data.readers import Listing, inside


def read_tab_separated(table: Path, images: Path) -> Listing:
    """Lines of split, class and file in ``labels.tsv``, and all images in one folder."""
    rows = [line.split("\t") for line in table.read_text(encoding="utf-8").splitlines()]
    classes = sorted({name for _, name, _ in rows})
    samples = {
        split: [
            (inside(images, file, table), classes.index(name))  # refuses paths such as ../file
            for s, name, file in rows
            if s == split
        ]
        for split in ("train", "val")
    }
    return Listing(samples["train"], samples["val"], tuple(classes))


# The parts that make the layout recognisable; the reader gets their paths in this order.
TAB_SEPARATED = Layout("tab-separated", (("labels.tsv",), ("pictures",)), read_tab_separated)


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setattr("rootpool.train.data.layouts.LAYOUTS", [*LAYOUTS, TAB_SEPARATED])
    rows = []
    for split in ("train", "val"):
        for label, name in enumerate(class_names(2)):
            for k in range(2):
                file = f"{split}-{name}-{k}.jpg"
                save_image(tmp_path / "data" / "pictures" / file, label, 2, (40, 32), seed=k)
                rows.append(f"{split}\t{name}\t{file}")
    (tmp_path / "data" / "labels.tsv").write_text("\n".join(rows), encoding="utf-8")
    return tmp_path / "data"


def test_the_layout_is_recognised(root):
    from rootpool.train.data import open_splits

    splits = open_splits(root, train_transform=lambda x: x, val_transform=lambda x: x)
    assert splits.name == "tab-separated"
    assert splits.classes == ("class00", "class01")
    assert [label for _, label in splits.train] == [0, 0, 1, 1]


@pytest.mark.slow
def test_a_network_trains_on_it(root, tmp_path, capsys):
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(
        "model: {backbone: resnet10t, method: gap}\n"
        "data: {resize: 32, crop: 32, batch_size: 4, workers: 0}\n"
        "trainer: {max_epochs: 1, accelerator: cpu}\n"
    )
    arguments = [str(recipe), f"--data={root}", f"--output={tmp_path / 'run'}"]
    assert main(["train", *arguments]) == 0
    assert "tab-separated: 4 images for training" in capsys.readouterr().out
