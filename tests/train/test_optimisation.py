"""Optimizers, schedules and what else changes how a network learns: by name, and resumed to the bit."""

import math

import pytest
import torch
from torch import nn

from rootpool.train import ModelSettings, SettingsError, build, merge, resolve
from rootpool.train.module import PooledTraining
from rootpool.train.optimisation import (
    SCHEDULES,
    make_mixture,
    make_optimizer,
    make_schedule,
    optimizer_names,
)
from small_runs import NUMBERED, Seen, run


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
    assert type(optimizer("AdamW")) is torch.optim.AdamW  # as torch writes it


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
        ({"warmup_epochs": -1.0}, "model.warmup_epochs must be 0 or more, got -1"),
        ({"mixup": -0.2}, "model.mixup must be 0 or more, got -0.2"),
        ({"backbone_lr": -0.05}, "model.backbone_lr must be 0 or more, got -0.05"),
        ({"pool_lr": -5.0}, "model.pool_lr must be 0 or more, got -5"),
        ({"lr": math.nan}, "model.lr must be 0 or more, got nan"),
        ({"lr": math.inf}, "model.lr must be 0 or more, got inf"),
        ({"milestones": [-3]}, r"model.milestones must be epochs from 1 on, got \[-3\]"),
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
        (
            {"backbone": "test_resnet", "backbone_options": {"weights": "packaged"}},
            "test_resnet are in no package.* or model.backbone_options=null, and its own model.freeze",
        ),
    ],
)
def test_settings_that_contradict_each_other(options, message):
    classes = options.get("num_classes", 3)
    network = {key: value for key, value in options.items() if key != "num_classes"}
    with pytest.raises(SettingsError, match=message):
        PooledTraining(ModelSettings(**network), num_classes=classes)


def rates_of(folder, **parts) -> list[float]:
    """The learning rates of a training, of the first batch of each epoch and of the last batch of all."""
    seen = Seen()
    run(folder, config=merge(NUMBERED, parts), callbacks=[seen])
    per_epoch = [rate for (_, batch), rate in seen.rates.items() if batch == 0]
    return [*per_epoch, list(seen.rates.values())[-1]]


@pytest.mark.slow
def test_a_limit_of_steps_shortens_the_schedule_and_not_its_warm_up(tmp_path):
    """Six steps are an epoch, whether steps or epochs end the training."""
    trainer = {"max_epochs": 10, "max_steps": 18}
    steps = {"lr": 1.0, "milestones": [2], "warmup_epochs": 1.0}
    found = rates_of(tmp_path / "steps", model=steps, trainer=trainer)
    assert found == pytest.approx([0.01, 1.0, 0.1, 0.1])
    cosine = {"lr": 1.0, "schedule": "cosine", "warmup_epochs": 1.0}
    expected = [0.01, 1.0, 0.5, (1 + math.cos(math.pi * 11 / 12)) / 2]
    for name, limits in (("both", trainer), ("steps alone", {"max_epochs": None, "max_steps": 18})):
        assert rates_of(tmp_path / name, model=cosine, trainer=limits) == pytest.approx(expected)
    with pytest.raises(SettingsError, match="must know how long the training is; give"):
        rates_of(
            tmp_path / "x", model=cosine, trainer={"max_epochs": -1, "max_time": "00:00:01:00"}
        )


@pytest.mark.slow
def test_overfitting_repeats_its_batches(tmp_path):
    seen = Seen()
    run(tmp_path, config=merge(NUMBERED, {"trainer": {"overfit_batches": 2}}), callbacks=[seen])
    assert len(seen.samples) == 6
    for (_, batch), samples in seen.samples.items():
        assert samples == seen.samples[0, batch]


@pytest.mark.slow
def test_a_warm_up_that_never_ends_is_said(tmp_path):
    model = {"schedule": "cosine", "warmup_epochs": 1.0}
    with pytest.warns(UserWarning, match=r"ends with its warm-up \(model.warmup_epochs=1, and it"):
        rates_of(tmp_path, model=model, trainer={"max_epochs": 1})


@pytest.mark.slow
def test_frozen_parts_learn_from_their_epoch_on(tmp_path):
    frozen = {"model": {"freeze": "backbone", "unfreeze_epoch": 1}}
    name, weights = "model.backbone.body.0.weight", []
    for epochs in (1, 2):
        config = merge(NUMBERED, frozen, {"trainer": {"max_epochs": epochs}})
        weights.append(run(tmp_path / str(epochs), config=config).module.state_dict()[name])
    untouched, _ = build(resolve(config))
    assert untouched.model.backbone.body[0].weight.requires_grad is False
    assert torch.equal(untouched.state_dict()[name], weights[0])
    assert not torch.equal(weights[0], weights[1])
