"""The effective configuration: defaults, types and errors."""

from dataclasses import fields

import pytest
import yaml
from jsonargparse import Namespace

from rootpool.recipes import SettingsError, known_keys
from rootpool.train.hybrid import HybridSchedule
from rootpool.train.module import PooledTraining
from rootpool.train.settings import as_yaml, hybrid_schedule, parser, resolve


def test_defaults_are_filled_in_and_values_typed():
    settings = resolve({"model": {"lr": 1}, "hybrid": {"switch_epoch": 5}})
    assert isinstance(settings.model.lr, float)
    assert settings.model.backbone == "patchnet"
    assert hybrid_schedule(settings).decay_epoch == 6
    assert settings.trainer.max_epochs is None


def test_keys_read_from_the_source_are_those_of_the_parser():
    """Lightning's Trainer included, whose source may change."""
    parsed = set(dict(Namespace(parser().get_defaults()).items())) - {"hybrid"}
    assert set(known_keys()) == {*parsed, *(f"hybrid.{f.name}" for f in fields(HybridSchedule))}


def test_every_key_is_shown_whatever_its_value():
    shown = yaml.safe_load(as_yaml(resolve({})))
    for key in known_keys():
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
        ({"trainer": {"callbacks": []}}, r"unknown key 'trainer.callbacks': .*see patience, ema"),
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
        ({"trainer": {"strategy": {"class_path": "os.system"}}}, r"unknown key 'trainer.strategy"),
        ({"model": {"lr": "fast"}}, r"model.lr"),
        ({"hybrid": {"switch_epoch": 0}}, r"switch_epoch must be at least 1"),
        ({"hybrid": 5}, r"hybrid must be settings such as hybrid.switch_epoch=5, or null, got 5$"),
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
        PooledTraining(method="svd-trunc", method_options={"bond": 1}, num_classes=3)
