"""Optimizers, schedules and what else changes how a network learns: by name, and resumed to the bit."""

import math

import pytest
import torch
from torch import nn

from rootpool.train import ModelSettings, SettingsError, merge
from rootpool.train.module import PooledTraining
from rootpool.train.optimisation import (
    SCHEDULES,
    make_mixture,
    make_optimizer,
    make_schedule,
    optimizer_names,
)
from small_runs import BATCHES, CONFIG, EPOCHS, assert_same_state, final, run, stopped_run


def optimizer(name, **options):
    layer = nn.Linear(2, 2)
    given = {"lr": 0.1, "momentum": 0.8, "weight_decay": 0.01}
    return make_optimizer(name, [{"params": list(layer.parameters())}], **given, options=options)


def test_the_paper_s_optimizer_is_plain_sgd():
    (group,) = optimizer("sgd").param_groups
    assert type(optimizer("sgd")) is torch.optim.SGD
    assert (group["momentum"], group["nesterov"], group["weight_decay"]) == (0.8, False, 0.01)


@pytest.mark.parametrize(
    ("name", "options"),
    [("adamw", {"betas": [0.8, 0.9]}), ("rmsprop", {}), ("lamb", {}), ("lion", {})],
)
def test_optimizers_of_torch_and_timm(name, options):
    made = optimizer(name, **options)
    (group,) = made.param_groups
    assert (group["lr"], group["weight_decay"]) == (0.1, 0.01)
    assert all(list(group[key]) == value for key, value in options.items())


def test_optimizers_that_cannot_be_made_are_explained():
    with pytest.raises(
        SettingsError, match=r"unknown model\.optimizer 'adamv'; did you mean .*adam"
    ):
        optimizer("adamv")
    with pytest.raises(SettingsError, match=r"the optimizer adamw does not take .*'nesterov'"):
        optimizer("adamw", nesterov=True)
    assert "lbfgs" not in optimizer_names()


def rates(name, *, epochs=4, steps=5, **options) -> list[float]:
    """The learning rate of each step, as a share of the initial one."""
    given = {"milestones": [], "warmup_epochs": 0.0, "min_share": 0.0, **options}
    made = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0)
    schedule, interval = make_schedule(name, made, epochs=epochs, steps_per_epoch=steps, **given)
    found = []
    for step in range(epochs * steps):
        found.append(made.param_groups[0]["lr"])
        made.step()
        if interval == "step" or (step + 1) % steps == 0:
            schedule.step()
    return found


def test_schedules_by_formula():
    steps = [k / 5 for k in range(20)]  # in epochs
    cosine = [0.1 + 0.9 * (1 + math.cos(math.pi * t / 4)) / 2 for t in steps]
    assert rates("cosine", min_share=0.1) == pytest.approx(cosine)
    assert rates("linear") == pytest.approx([1 - t / 4 for t in steps])
    decayed = [1.0 if t < 1 else 0.1 if t < 3 else 0.01 for t in steps]
    assert rates("steps", milestones=[1, 3]) == pytest.approx(decayed)
    warm = [0.01 + 0.99 * t / 2 if t < 2 else d for t, d in zip(steps, decayed, strict=True)]
    assert rates("steps", milestones=[1, 3], warmup_epochs=2) == pytest.approx(warm)


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule_rises_in_the_warm_up_and_never_after(name):
    found = rates(name, warmup_epochs=1.5, milestones=[3] if name == "steps" else [])
    top = found.index(max(found))
    assert found[: top + 1] == sorted(found[: top + 1])
    assert found[top:] == sorted(found[top:], reverse=True)
    assert found[0] == pytest.approx(0.01)


def test_mixtures_keep_the_sum_of_labels():
    images, labels = torch.rand(8, 3, 6, 6), torch.arange(8) % 4
    for options in ((0.2, 0.0), (0.0, 1.0), (0.2, 1.0)):
        mixed, shares = make_mixture(*options, 4)(images, labels)
        assert mixed.shape == images.shape
        assert torch.allclose(shares.sum(1), torch.ones(8))
    assert make_mixture(0.0, 0.0, 4) is None


def test_label_smoothing_is_of_the_training_loss_alone():
    plain, smooth = (
        PooledTraining(ModelSettings(label_smoothing=s), num_classes=3) for s in (0.0, 0.3)
    )
    smooth.load_state_dict(plain.state_dict())
    batch = torch.randn(4, 1, 28, 28), torch.tensor([0, 1, 2, 0])
    losses = {}
    for name, module in (("plain", plain), ("smooth", smooth)):
        with torch.no_grad():
            losses[name] = [float(module.train(mode).loss(*batch)[0]) for mode in (True, False)]
    assert losses["plain"][0] != losses["smooth"][0]
    assert losses["plain"][1] == pytest.approx(losses["smooth"][1], rel=1e-2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"schedule": "cosine", "milestones": [1]},
            "are those of model.schedule=steps, got cosine",
        ),
        ({"unfreeze_epoch": 3}, "model.unfreeze_epoch needs model.freeze"),
        ({"num_classes": 1}, "a classifier needs two classes or more, got 1"),
        ({"label_smoothing": 2.0}, "model.label_smoothing must be from 0 to 1, got 2"),
        ({"min_share": 1.5}, "model.min_share must be from 0 to 1, got 1.5"),
        ({"warmup_epochs": -1.0}, "model.warmup_epochs must not be negative, got -1"),
        ({"mixup": -0.2}, "model.mixup must not be negative, got -0.2"),
        ({"length": 0.0}, "model.length must be positive, got 0"),
        (
            {"backbone_options": {"drop_rate": 0.5}},
            "has drop_rate, which the other settings of the",
        ),
        (
            {"backbone_options": {"depth": 3}},
            "{'depth': 3} do not suit patchnet: .*no option 'depth'",
        ),
        (
            {"backbone": "test_resnet", "backbone_options": {"depth": 3}},
            "{'depth': 3} do not suit test_resnet: .*unexpected keyword argument 'depth'",
        ),
    ],
)
def test_settings_that_contradict_each_other(options, message):
    classes = options.get("num_classes", 3)
    network = {key: value for key, value in options.items() if key != "num_classes"}
    with pytest.raises(SettingsError, match=message):
        PooledTraining(ModelSettings(**network), num_classes=classes)


EVERYTHING = {
    "model": {
        "optimizer": "adamw",
        "lr": 0.003,
        "milestones": None,
        "schedule": "cosine",
        "warmup_epochs": 0.5,
        "decay_norms": False,
        "label_smoothing": 0.1,
        "mixup": 0.2,
        "cutmix": 1.0,
        "drop_rate": 0.2,
        "freeze": "backbone",
        "unfreeze_epoch": 1,
    },
    "trainer": {"gradient_clip_val": 1.0, "accumulate_grad_batches": 2},
    "ema": 0.9,
    "patience": 3,
}


@pytest.mark.slow
def test_a_warm_up_that_never_ends_is_said(tmp_path):
    model = {"milestones": None, "schedule": "cosine", "warmup_epochs": 1.0}
    trainer = {"max_epochs": 1, "limit_train_batches": 1}
    config = merge(CONFIG, {"hybrid": None, "model": model, "trainer": trainer})
    with pytest.warns(
        UserWarning, match=r"ends with its warm-up \(model.warmup_epochs=1, trainer.max_"
    ):
        run(tmp_path, config=config)


@pytest.mark.slow
def test_a_run_with_everything_is_resumed_to_the_bit(tmp_path):
    """Within an epoch, between two batches of one step, after the switch and after the thaw."""
    config = merge(CONFIG, EVERYTHING)
    whole = run(tmp_path / "whole", config=config)
    assert whole.trainer.global_step == EPOCHS * math.ceil(BATCHES / 2)
    stopped_run(tmp_path / "stopped", 2, config=config)
    stopped_run(tmp_path / "stopped", 8, config=config, resume=True)
    run(tmp_path / "stopped", config=config, resume=True)
    expected = final(tmp_path / "whole")
    assert_same_state(final(tmp_path / "stopped"), expected)
    for key, value in expected["current_model_state"].items():
        assert torch.equal(final(tmp_path / "stopped")["current_model_state"][key], value), key
    assert [row["pooling"] for row in expected["history"]] == 2 * ["isqrt-cov"] + 2 * ["svd-pade"]


@pytest.mark.slow
def test_frozen_parts_learn_from_their_epoch_on(tmp_path):
    name = "model.backbone.body.0.weight"
    weights = []
    for epochs in (1, 2):
        config = merge(
            CONFIG,
            {
                "hybrid": None,
                "model": {"milestones": None, "freeze": "backbone", "unfreeze_epoch": 1},
                "trainer": {"max_epochs": epochs, "limit_train_batches": 2},
            },
        )
        done = run(tmp_path / str(epochs), config=config)
        weights.append(done.module.state_dict()[name])
    fresh = PooledTraining.from_options(done.module.hparams)
    assert fresh.model.backbone.body[0].weight.requires_grad is False
    assert not torch.equal(weights[0], weights[1])
    from rootpool.train import build, resolve

    untouched, _ = build(resolve(config))
    assert torch.equal(untouched.state_dict()[name], weights[0])


@pytest.mark.slow
def test_a_training_that_gets_no_better_ends_early(tmp_path):
    still = {"lr": 0.0, "milestones": None, "freeze": "backbone"}
    config = merge(CONFIG, {"hybrid": None, "model": still, "patience": 1})
    done = run(tmp_path, config=config)
    assert [record["epoch"] for record in done.module.history] == [0, 1]
