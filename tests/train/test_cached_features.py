"""Training behind frozen stages whose features are cached: the same training, in less time."""

import pytest
import torch

from images import make_cub, make_image_tree
from rootpool.train import SettingsError, evaluate, load_run, merge
from rootpool.train.export import export_run
from rootpool.train.run import build, prepare
from rootpool.train.settings import resolve
from small_runs import run, typed


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return make_image_tree(tmp_path_factory.mktemp("photos"), classes=3, per_class=8, size=(80, 72))


BRANCHES = [
    {"stage": "layer2", "length": 2.0},
    {"stage": "layer1", "method": "covariance", "reduction": 0},
    {"stage": "average", "method": "gap", "reduction": 0, "power": 0.5},
]
BEHIND = {
    "frozen stages": {"freeze": "layer1"},
    "branches": {"freeze": "backbone", "branches": BRANCHES, "length": 3.0, "mirrored": True},
}


@pytest.fixture(params=BEHIND)
def config(images, tmp_path, request):
    changed = typed(
        "model.backbone=test_resnet ; model.method=exact ; model.reduction=8 ; model.lr=0.05 ; save_every=2"
        " ; model.milestones=[2] ; model.drop_rate=0.0 ; data.transform=resized-crop ; data.resize=64"
        f" ; data.crop=64 ; data.batch_size=6 ; data.views=2 ; data.root={images}"
        f" ; data.cache={tmp_path / 'features'}"
    )
    return merge(changed, {"model": BEHIND[request.param]})


def test_a_run_learns_and_can_be_used(config, tmp_path):
    done = run(tmp_path / "run", config=config)
    history = done.module.history
    assert history[-1]["train_loss"] < history[0]["train_loss"]
    # Measured on the images themselves, by the whole network.
    trained = load_run(tmp_path / "run" / "last.ckpt")
    measured = evaluate(trained).metrics
    for name, tolerance in (("val_loss", 0.01), ("val_error", 100 / 24 + 1e-3)):
        assert measured[name] == pytest.approx(history[-1][name], abs=tolerance)
    frozen, start = trained.module.model.backbone.state_dict(), build(resolve(config))[0]
    for name, tensor in start.model.backbone.state_dict().items():
        if "layer2" not in name and "layer3" not in name and "layer4" not in name:
            assert torch.equal(frozen[name], tensor), name
    exported = export_run(trained, tmp_path / "run.pt2")
    assert exported.difference < 0.01 * exported.largest


def test_the_same_as_without_a_cache(config, tmp_path, monkeypatch):
    """With transforms that are not random, what differs is the rounding of the features to float16."""
    from rootpool.train import datamodule

    still = datamodule.ImageData.transforms
    monkeypatch.setattr(datamodule.ImageData, "transforms", lambda self: (still(self)[1],) * 2)
    cached = run(tmp_path / "cached", config=config).module
    plain = run(tmp_path / "plain", config=typed("data.cache=null", config)).module
    for ours, theirs in zip(cached.history, plain.history, strict=True):
        for name in ("train_loss", "val_loss"):
            assert ours[name] == pytest.approx(theirs[name], rel=0.02)


MISTAKES = {
    "model.freeze=null": "data.cache .* needs model.freeze",
    "model.unfreeze_epoch=1": "without model.unfreeze_epoch",
    "model.mixup=0.2": "mix images; leave out data.cache",
    "model.branches=[{stage: layer2}]": "model.freeze=layer1: several stages are pooled, and not all are f",
    "model.branches=[{stage: average}] ; model.freeze=backbone": "leave one position of the map of test_",
    "data.root=photo-patches ; model.backbone=patchnet ; model.freeze='1'": "is for image files",
}


@pytest.mark.parametrize(("change", "message"), MISTAKES.items(), ids=MISTAKES)
@pytest.mark.parametrize("config", ["frozen stages"], indirect=True)
def test_mistakes(config, tmp_path, change, message):
    with pytest.raises(SettingsError, match=message):
        prepare(resolve(typed(change, config)), tmp_path / "run", progress=False)


def test_choices_are_made_without_the_test_images(tmp_path):
    root = make_cub(tmp_path / "cub")
    config = typed(f"model.backbone=test_resnet ; data.root={root} ; data.crop=32 ; data.resize=32")
    held = build(resolve(typed("data.hold_out=true ; data.val_share=0.5", config)))[1].splits
    whole = build(resolve(config))[1].splits
    test = {whole.val.path(k) for k in range(len(whole.val))}
    for part in (held.train, held.val):
        assert not test & {part.path(k) for k in range(len(part))}
