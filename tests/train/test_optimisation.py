"""Optimizers, schedules and what else changes how a network learns."""

import math

import pytest
import torch
from torch import nn

from rootpool.train import ModelSettings, SettingsError, build, resolve
from rootpool.train.module import PooledTraining
from rootpool.train.optimisation import make_mixture, make_optimizer, rate_share
from small_runs import Seen, run, typed


def optimizer(name, **options):
    settings = ModelSettings(
        optimizer=name, momentum=0.8, weight_decay=0.01, optimizer_options=options
    )
    return make_optimizer(settings, [{"params": list(nn.Linear(2, 2).parameters())}])


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("sgd", torch.optim.SGD, {"momentum": 0.8, "nesterov": False}),  # the paper's
        ("AdamW", torch.optim.AdamW, {"betas": (0.8, 0.9)}),  # as torch writes it
        ("rmsprop", torch.optim.RMSprop, {"momentum": 0.8}),
        ("lamb", None, {}),
    ],
)
def test_optimizers_of_torch_and_timm(name, kind, expected):
    made = optimizer(name, **({"betas": [0.8, 0.9]} if "betas" in expected else {}))
    (group,) = made.param_groups
    for key, value in {"lr": 0.1, "weight_decay": 0.01, **expected}.items():
        assert group[key] == value
    assert kind is None or type(made) is kind


def test_optimizers_that_cannot_be_made_are_explained():
    with pytest.raises(SettingsError, match=r"unknown model.optimizer 'adamv'; did you .*adam"):
        optimizer("adamv")
    with pytest.raises(SettingsError, match=r"the optimizer adamw does not take .*'nesterov'"):
        optimizer("adamw", nesterov=True)


def warm(t):
    return 0.01 + 0.99 * t / 2


# The share of the rate at a time in epochs, of four.
SCHEDULES = {
    "cosine": (
        {"schedule": "cosine", "min_share": 0.1},
        lambda t: 0.1 + 0.9 * (1 + math.cos(math.pi * t / 4)) / 2,
    ),
    "linear": ({"schedule": "linear"}, lambda t: 1 - t / 4),
    "steps": ({"milestones": [3, 1]}, lambda t: 0.1 ** ((t >= 1) + (t >= 3))),
    "steps, warm-up": (
        {"milestones": [1, 3], "warmup_epochs": 2},
        lambda t: warm(t) if t < 2 else 0.1 if t < 3 else 0.01,
    ),
    "linear, warm-up": (
        {"schedule": "linear", "warmup_epochs": 2, "min_share": 0.2},
        lambda t: warm(t) if t < 2 else 0.2 + 0.8 * (4 - t) / 2,
    ),
}


@pytest.mark.parametrize(("options", "share"), SCHEDULES.values(), ids=SCHEDULES)
def test_schedules_by_formula(options, share):
    times = [k / 5 for k in range(20)]
    found = [rate_share(ModelSettings(**options), time, 4) for time in times]
    assert found == pytest.approx([share(time) for time in times])


@pytest.mark.parametrize(("mixup", "cutmix"), [(0.2, 0.0), (0.0, 1.0), (0.2, 1.0)])
def test_mixtures_have_the_mean_of_their_labels(mixup, cutmix):
    """Images of one grey level per class: the mean over the batch is that of the shares."""
    labels = torch.arange(8) % 4
    images = labels.float().view(8, 1, 1, 1).expand(8, 3, 6, 6)
    mixed, shares = make_mixture(ModelSettings(mixup=mixup, cutmix=cutmix), 4)(images, labels)
    torch.testing.assert_close(shares.sum(1), torch.ones(8))
    torch.testing.assert_close(mixed.mean((1, 2, 3)), shares @ torch.arange(4.0))
    assert make_mixture(ModelSettings(), 4) is None


def test_label_smoothing_is_of_the_training_loss_alone():
    module = PooledTraining(ModelSettings(label_smoothing=0.3), num_classes=3)
    images, labels = torch.randn(4, 1, 28, 28), torch.tensor([0, 1, 2, 0])
    for training, smoothing in ((True, 0.3), (False, 0.0)):
        loss, logits, _ = module.train(training).loss(images, labels)
        expected = nn.functional.cross_entropy(logits, labels, label_smoothing=smoothing)
        assert torch.equal(loss, expected)


def rates_of(folder, text) -> list[float]:
    """The learning rates of a training, of the first batch of each epoch and of the last batch of all."""
    seen = Seen()
    run(folder, config=typed(f"model.lr=1.0 ; model.warmup_epochs=1.0 ; {text}"), callbacks=[seen])
    per_epoch = [rate for (_, batch), rate in seen.rates.items() if batch == 0]
    return [*per_epoch, list(seen.rates.values())[-1]]


@pytest.mark.slow
def test_a_limit_of_steps_shortens_the_schedule_and_not_its_warm_up(tmp_path):
    """Six steps are an epoch, whether steps or epochs end the training."""
    steps = "model.milestones=[2] ; trainer.max_epochs=10 ; trainer.max_steps=18"
    assert rates_of(tmp_path / "steps", steps) == pytest.approx([0.01, 1.0, 0.1, 0.1])
    cosine = "model.schedule=cosine ; trainer.max_epochs={} ; trainer.{}"
    found = rates_of(tmp_path / "cosine", cosine.format("null", "max_steps=18"))
    assert found == pytest.approx([0.01, 1.0, 0.5, (1 + math.cos(math.pi * 11 / 12)) / 2])
    with pytest.raises(SettingsError, match="must know how long the training is; give"):
        rates_of(tmp_path / "x", cosine.format(-1, "max_time=00:00:01:00"))
    with pytest.warns(UserWarning, match=r"ends with its warm-up \(model.warmup_epochs=1, and it"):
        rates_of(tmp_path / "y", cosine.format(1, "max_steps=-1"))


@pytest.mark.slow
def test_overfitting_repeats_its_batches(tmp_path):
    seen = Seen()
    run(tmp_path, config=typed("trainer.overfit_batches=2"), callbacks=[seen])
    assert len(seen.samples) == 6
    for (_, batch), samples in seen.samples.items():
        assert samples == seen.samples[0, batch]


@pytest.mark.slow
def test_frozen_parts_learn_from_their_epoch_on(tmp_path):
    config = typed("model.freeze=backbone ; model.unfreeze_epoch=2")
    name = "model.backbone.body.0.weight"
    weights = [build(resolve(config))[0].state_dict()[name]]

    class Note(Seen):
        def on_train_epoch_end(self, trainer, pl_module):
            weights.append(pl_module.state_dict()[name].clone())

    run(tmp_path, config=config, callbacks=[Note()])
    assert [torch.equal(weight, weights[0]) for weight in weights] == [True, True, True, False]
