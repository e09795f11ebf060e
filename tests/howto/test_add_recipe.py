"""How to add a recipe: one YAML file, on top of a family or of nothing."""

import pytest

from rootpool.cli import main
from rootpool.train import load_recipe

MINE = """\
about: The small network with a truncated gradient, for three epochs
base: patches
model:
  method: svd-trunc
  method_options: {bound: 1.0e+8}
  milestones: [2]
trainer: {max_epochs: 3}
"""


@pytest.fixture
def recipe(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(MINE)
    return file


def test_the_file_is_a_recipe(recipe):
    loaded = load_recipe(str(recipe))
    assert loaded.config["model"]["backbone"] == "patchnet"  # of the family
    assert loaded.config["model"]["method_options"] == {"bound": 1e8}


@pytest.mark.slow
def test_it_trains(recipe, tmp_path):
    fast = ["trainer.limit_train_batches=2", "trainer.limit_val_batches=1"]
    assert main(["train", str(recipe), f"--output={tmp_path / 'run'}", *fast]) == 0
    assert len((tmp_path / "run" / "history.csv").read_text().splitlines()) == 1 + 3
