"""One recipe per family and protocol builds its network and survives a step on generated images."""

import gc

import pytest
import torch

from images import MAKERS
from rootpool.models import create_model, save_checkpoint
from rootpool.recipes import HYBRID, STANDALONE, families, merge, recipe
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
CASES = [(f, p) for f, family in families().items() for p in (STANDALONE, *family.protocols)]


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """Weights to fine-tune, of other classes."""
    path = tmp_path_factory.mktemp("weights") / "resnet50.safetensors"
    network = create_model("paper/resnet50", "isqrt-cov", num_classes=5, reduction=REDUCTION)
    save_checkpoint(network, path)
    return path


@pytest.fixture(autouse=True)
def leave_nothing():
    """Trainer and network refer to each other, a gigabyte that Python would collect some day."""
    yield
    gc.collect()


@pytest.mark.parametrize(("family", "protocol"), CASES)
def test_a_step_of_every_family_and_protocol(family, protocol, tmp_path, pretrained):
    made = recipe(family, "svd-pade", protocol)
    config = merge(made.config, SMALL)
    if "--data" in made.needs:
        data = MAKERS[families()[family].layout or "image-folder"](tmp_path / "data", 2, 1)
        pixels = 80 if "alexnet" in config["model"]["backbone"] else 64
        sizes = {"root": str(data), "resize": pixels, "crop": pixels}
        config = merge(config, {"data": sizes})
    if "--weights" in made.needs:
        config = merge(config, {"model": {"weights": str(pretrained)}})
    run = prepare(resolve(config), tmp_path / "run", progress=False)
    before = run.module.model.classifier.state_dict()
    before = {key: value.clone() for key, value in before.items()}
    run.fit()
    after = run.module.model.classifier.state_dict()
    assert run.trainer.global_step == 1
    assert all(torch.isfinite(value).all() for value in run.module.state_dict().values())
    assert any(not torch.equal(before[key], after[key]) for key in before)
    # A hybrid run begins with the method of its first stage.
    expected = "isqrt-cov" if protocol == HYBRID else made.method
    assert run.module.model.pool.method.name == expected
