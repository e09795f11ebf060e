import pytest
import yaml

from rootpool.train.settings import (
    SettingsError,
    apply_overrides,
    as_yaml,
    hybrid_schedule,
    merge,
    resolve,
)


def test_defaults_are_filled_in_and_values_typed():
    settings = resolve({"model": {"lr": 1}, "hybrid": {"switch_epoch": 5}})
    assert settings.model.lr == 1.0
    assert settings.model.backbone == "patchnet"
    assert hybrid_schedule(settings).decay_epoch == 6
    assert settings.trainer.max_epochs is None


def test_the_effective_configuration_reads_back_to_itself():
    config = {
        "seed": 3,
        "model": {"method": "svd-trunc", "method_options": {"bound": 1e8}, "milestones": [1, 2]},
        "hybrid": {"switch_epoch": 1},
        "trainer": {"max_epochs": 3, "precision": "bf16-mixed"},
    }
    text = as_yaml(resolve(config))
    assert as_yaml(resolve(yaml.safe_load(text))) == text
    assert "bound: 100000000.0" in text


def test_overrides_are_read_as_yaml_and_numbers_as_people_write_them():
    config = apply_overrides(
        {"model": {"lr": 0.1, "milestones": [4, 6]}},
        ["model.lr=1e-3", "model.milestones=[2]", "model.weights=null", "data.root=a=b"],
    )
    assert config == {
        "model": {"lr": 0.001, "milestones": [2], "weights": None},
        "data": {"root": "a=b"},
    }


def test_merging_leaves_its_arguments_alone():
    base = {"a": {"b": 1}}
    assert merge(base, {"a": {"c": 2}}, {"a": 3}) == {"a": 3}
    assert base == {"a": {"b": 1}}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model": {"lrr": 0.1}}, r"unknown key 'model.lrr'; did you mean: model.lr"),
        ({"lr": 0.1}, r"unknown key 'lr'; did you mean: model.lr"),
        (
            {"trainer": {"epochs": 3}},
            r"unknown key 'trainer.epochs'; did you mean: .*trainer.max_epochs",
        ),
        ({"trainer": {"callbacks": []}}, r"unknown key 'trainer.callbacks'"),
        ({"model": {"lr": "fast"}}, r"model.lr"),
        ({"hybrid": {"switch_epoch": 0}}, r"switch_epoch must be at least 1"),
        (
            {"hybrid": {"switch": 3}},
            r"unknown key 'hybrid.switch'; did you mean: hybrid.switch_epoch",
        ),
        ({"data": {"on_bad_image": "ignore"}}, r"data.on_bad_image"),
    ],
)
def test_what_cannot_be_used_is_named(config, message):
    with pytest.raises(SettingsError, match=message):
        resolve(config)


@pytest.mark.parametrize("override", ["model.lr", "=3", "model.lr=[1,"])
def test_malformed_overrides(override):
    with pytest.raises(SettingsError, match=r"key=value|not YAML"):
        apply_overrides({}, [override])
