"""Every recipe builds its network and survives a step of training and validation on generated images."""

import gc

import pytest
import torch

from images import MAKERS
from rootpool.models import create_model, save_checkpoint
from rootpool.nn import METHODS
from rootpool.train.recipes import load_recipe, recipe_names
from rootpool.train.run import prepare
from rootpool.train.settings import merge, resolve

LAYOUTS = {
    "imagenet": "image-folder",
    "birds": "cub-200-2011",
    "dogs": "stanford-dogs",
    "cars": "stanford-cars",
}
SMALL = {
    "trainer": {"fast_dev_run": True, "accelerator": "cpu"},
    "data": {"batch_size": 4, "workers": 0},
}


@pytest.fixture(scope="module")
def data_sets(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    return {word: str(MAKERS[layout](root / word)) for word, layout in LAYOUTS.items()}


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """Weights to fine-tune, of a thousand classes; those of the vanilla network have no reduction."""
    folder = tmp_path_factory.mktemp("weights")
    for kind, pool in (("covariance", "isqrt-cov"), ("gap", "gap")):
        save_checkpoint(create_model("paper/resnet50", pool), folder / f"{kind}.safetensors")
    return folder


@pytest.fixture(autouse=True)
def leave_nothing():
    """Trainer and network refer to each other, a gigabyte that Python would collect some day."""
    yield
    gc.collect()


@pytest.mark.parametrize("name", recipe_names())
def test_a_step_of_every_recipe(name, tmp_path, data_sets, pretrained):
    recipe = load_recipe(name)
    config = merge(recipe.config, SMALL)
    word = next((word for word in LAYOUTS if word in name), None)
    if word is not None:
        pixels = 80 if "alexnet" in name else 64
        sizes = {"root": data_sets[word], "resize": pixels, "crop": pixels}
        config = merge(config, {"data": sizes})
    if "--weights" in recipe.needs:
        kind = "gap" if name.endswith("gap") else "covariance"
        config = merge(config, {"model": {"weights": str(pretrained / f"{kind}.safetensors")}})
    run = prepare(resolve(config), tmp_path / "run", progress=False)
    before = run.module.model.classifier.state_dict()
    before = {key: value.clone() for key, value in before.items()}
    run.fit()
    after = run.module.model.classifier.state_dict()
    assert run.trainer.global_step == 1
    assert all(torch.isfinite(value).all() for value in run.module.state_dict().values())
    assert any(not torch.equal(before[key], after[key]) for key in before)
    method = getattr(run.module.model.pool, "method", None)
    expected = "isqrt-cov" if name.endswith("hybrid") else recipe.config["model"]["method"]
    if expected in METHODS:  # a hybrid run begins with the first stage's
        assert method.name == expected
