"""The effective configuration: defaults, types and errors."""

import inspect
from dataclasses import fields

import lightning.pytorch as pl
import pytest
import yaml

from rootpool.train import ModelSettings, PooledTraining, SettingsError, TrainerSettings, resolve
from rootpool.train.settings import as_yaml, check_same, setting_names


def test_defaults_are_filled_in_and_values_typed():
    settings = resolve({"model": {"lr": 1}, "hybrid": {"switch_epoch": 5}})
    assert isinstance(settings.model.lr, float)
    assert settings.model.backbone == "patchnet"
    assert settings.hybrid.decay_epoch == 6
    assert settings.trainer.max_epochs is None


def test_defaults_of_the_trainer_are_lightning_s():
    known = inspect.signature(pl.Trainer).parameters
    for part in fields(TrainerSettings):
        assert part.default == known[part.name].default


def test_numbers_and_containers_are_typed():
    """1 is one batch and 1.0 all of them; YAML reads 1e-3 as text."""
    for value in (1, 1.0):
        limit = resolve({"trainer": {"limit_train_batches": value}}).trainer.limit_train_batches
        assert (limit, type(limit)) == (value, type(value))
    settings = resolve({"model": {"lr": "1e-3"}, "data": {"resize": [64, 48], "mean": [0, 1, 0.5]}})
    assert settings.model.lr == 0.001
    assert settings.data.resize == (64, 48)
    assert [type(x) for x in settings.data.mean] == [float] * 3


def test_another_precision_is_another_run():
    before = {"model": {"compute_dtype": "float64"}}
    check_same(before, resolve(before))
    with pytest.raises(SettingsError, match=r"model.compute_dtype was float64 and is None"):
        check_same(before, resolve({}))


def test_every_key_is_shown_whatever_its_value():
    shown = yaml.safe_load(as_yaml(resolve({})))
    for key in setting_names():
        part, _, name = key.partition(".")
        assert part == "hybrid" or (name in shown[part] if name else part in shown), key
    assert shown["hybrid"] is None


def test_the_effective_configuration_reads_back_to_itself():
    config = {
        "seed": 3,
        "model": {"method": "svd-trunc", "method_options": {"bound": 1e8}, "milestones": [1, 2]},
        "hybrid": {"switch_epoch": 1},
        "data": {"root": "`rm`; $(rm) && ../../x | %s {0}"},
        "trainer": {"max_epochs": 3, "precision": "bf16-mixed"},
    }
    settings = resolve(config)
    assert settings.data.root == config["data"]["root"]
    text = as_yaml(settings)
    assert as_yaml(resolve(yaml.safe_load(text))) == text


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model": {"lrr": 0.1}}, r"unknown key 'model.lrr'; did you mean model.lr"),
        ({"lr": 0.1}, r"unknown key 'lr'; did you mean model.lr"),
        (
            {"trainer": {"epochs": 3}},
            r"unknown key 'trainer.epochs'; did you mean .*trainer.max_epochs",
        ),
        ({"trainer": {"callbacks": []}}, r"unknown key 'trainer.callbacks'; see patience, ema"),
        (
            {"model": {"milestones": 6}},
            r"model.milestones must be a list such as \[5, 10\] or null, ",
        ),
        (
            {"trainer": {"precision": "fp16"}},
            r"trainer.precision must be 64, 32, 16, .*, bf16-mixed, .* or null, got 'fp16'$",
        ),
        (
            {"model": {"schedule": "cos"}},
            r"model.schedule must be steps, cosine, linear, got 'cos'",
        ),
        (
            {"data": {"resize": [64]}},
            r"data.resize must be an integer or a pair such as \[256, 256\] or null, got \[64\]",
        ),
        (
            {"trainer": {"strategy": {"class_path": "os.system"}}},
            r"trainer.strategy must be text, got \{",
        ),
        ({"model": {"lr": "fast"}}, r"model.lr must be a number, got 'fast'$"),
        ({"model": {"lr": True}}, r"model.lr must be a number, got True$"),
        ({"seed": 1.5}, r"seed must be an integer, got 1.5$"),
        ({"model": 5}, r"model must be settings such as model.backbone=..., got 5$"),
        ({"hybrid": {"warmup_epochs": 1}}, r"hybrid needs hybrid.switch_epoch$"),
        ({"loggers": ["csv", 3]}, r"loggers must be a list such as \[a, b\], got"),
        ({"hybrid": {"switch_epoch": 0}}, r"switch_epoch must be at least 1"),
        ({"hybrid": 5}, r"hybrid must be settings such as hybrid.switch_epoch=..., got 5$"),
        (
            {"hybrid": {"switch": 3}},
            r"unknown key 'hybrid.switch'; did you mean hybrid.switch_epoch",
        ),
        ({"data": {"on_bad_image": "ignore"}}, r"data.on_bad_image"),
    ],
)
def test_what_cannot_be_used_is_named(config, message):
    with pytest.raises(SettingsError, match=message):
        resolve(config)


def test_options_of_a_method_are_its_parameters():
    with pytest.raises((TypeError, ValueError), match="bound"):
        PooledTraining(ModelSettings(method="svd-trunc", method_options={"bond": 1}))
