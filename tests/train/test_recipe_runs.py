"""A recipe of each family builds its network and survives a step on generated images."""

import gc

import pytest
import torch

from images import MAKERS, make_image_tree
from rootpool.models import create_model, save_checkpoint
from rootpool.nn import Branch
from rootpool.train import families, merge, recipe
from rootpool.train.run import prepare
from rootpool.train.settings import resolve

pytestmark = pytest.mark.slow

REDUCTION = (
    16  # instead of 256 channels: AlexNet's first layer after them would take half a gigabyte
)
SMALL = {
    "model": {"reduction": REDUCTION},
    "trainer": {"fast_dev_run": True, "accelerator": "cpu"},
    "data": {"batch_size": 2, "workers": 0},
}
TWINS = {
    "resnet101-imagenet",
    "dogs",
    "cars",
}  # a step of resnet50-imagenet and of birds says the same
CASES = [(family, False) for family in families() if family not in TWINS]
CASES += [("patches", True), ("alexnet-imagenet", True)]


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """Weights of other classes to fine-tune, for the network of a configuration."""
    folder = tmp_path_factory.mktemp("weights")

    def saved(model):
        path = folder / f"{model['backbone'].replace('/', '-')}.safetensors"
        if not path.exists():
            options = model.get("backbone_options", {})
            pool, size = "isqrt-cov", {"reduction": REDUCTION}
            if "branches" in model:
                pool, size = [Branch(b["stage"], pool, **size) for b in model["branches"]], {}
            save_checkpoint(create_model(model["backbone"], pool, 5, **size, **options), path)
        return str(path)

    return saved


@pytest.fixture(autouse=True)
def leave_nothing():
    """Trainer and network refer to each other, a gigabyte that Python would collect some day."""
    yield
    gc.collect()


@pytest.mark.parametrize(("family", "hybrid"), CASES)
def test_a_step_of_every_family_and_protocol(family, hybrid, tmp_path, pretrained):
    made = recipe(family, "svd-pade", hybrid)
    config = merge(made.config, SMALL)
    if "--data" in made.needs:
        maker = MAKERS.get(families()[family].layout, make_image_tree)
        data = maker(tmp_path / "data", 2, 1)
        pixels = 80 if "alexnet" in config["model"]["backbone"] else 64
        sizes = {"root": str(data), "resize": pixels, "crop": pixels}
        config = merge(config, {"data": sizes})
    if config["data"].get("cache"):
        config = merge(config, {"data": {"cache": str(tmp_path / "features")}})
    if "--weights" in made.needs:
        config = merge(config, {"model": {"weights": pretrained(config["model"])}})
    run = prepare(resolve(config), tmp_path / "run", progress=False)
    before = run.module.model.classifier.state_dict()
    before = {key: value.clone() for key, value in before.items()}
    run.fit()
    after = run.module.model.classifier.state_dict()
    assert run.trainer.global_step == 1
    assert any(not torch.equal(before[key], after[key]) for key in before)
    # A hybrid run begins with the method of its first stage.
    expected = "isqrt-cov" if hybrid else made.method
    assert run.module.model.pool.method.name == expected
