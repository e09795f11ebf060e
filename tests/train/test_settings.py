import contextlib
import sys

import pytest
import yaml

from rootpool.train.module import PooledTraining
from rootpool.train.settings import (
    SettingsError,
    apply_overrides,
    as_yaml,
    hybrid_schedule,
    known_keys,
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
        ({"model": {"lrr": 0.1}}, r"unknown key 'model.lrr'; did you mean model.lr"),
        ({"lr": 0.1}, r"unknown key 'lr'; did you mean model.lr"),
        (
            {"trainer": {"epochs": 3}},
            r"unknown key 'trainer.epochs'; did you mean .*trainer.max_epochs",
        ),
        ({"trainer": {"callbacks": []}}, r"unknown key 'trainer.callbacks'"),
        ({"model": {"lr": "fast"}}, r"model.lr"),
        ({"hybrid": {"switch_epoch": 0}}, r"switch_epoch must be at least 1"),
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


@pytest.mark.parametrize("override", ["model.lr", "=3", "model.lr=[1,"])
def test_malformed_overrides(override):
    with pytest.raises(SettingsError, match=r"key=value|not YAML"):
        apply_overrides({}, [override])


# --------------------------------------------------------------------------------------------------
# Values from strangers


laughs = "[" + ", ".join(["&a [x, x]"] + ["&a [*a, *a]"] * 30) + "]"


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """A module that must not be imported, on the path where it could be."""
    (tmp_path / "stranger.py").write_text("class Thing: pass")
    monkeypatch.syspath_prepend(tmp_path)
    yield "stranger"
    sys.modules.pop("stranger", None)


@pytest.mark.parametrize("key", known_keys())
def test_no_value_makes_us_import_what_it_names(key, stranger):
    for value in (
        "stranger.Thing",
        {"class_path": "stranger.Thing"},
        [{"class_path": "stranger.Thing"}],
    ):
        config = value
        for part in reversed(key.split(".")):
            config = {part: config}
        with contextlib.suppress(SettingsError):
            resolve(config)
        assert stranger not in sys.modules


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("output=../../x", "unknown key 'output'"),
        ("trainer.default_root_dir=../../x", "unknown key 'trainer.default_root_dir'"),
        ("trainer.logger=true", "unknown key 'trainer.logger'"),
        ("trainer.strategy.class_path=os.system", "unknown key 'trainer.strategy.class_path'"),
        ("__class__=3", "unknown key '__class__'"),
        ("model.__init__.__globals__=3", "unknown key 'model.__init__.__globals__'"),
        ("$(touch x)=1", r"unknown key '\$\(touch x\)'"),
        ("hybrid=os.system", "hybrid has keys, such as switch_epoch; got 'os.system'"),
        ("a." * 5000 + "b=1", "at most 10 parts, such as model.lr; got 5001: a.a.a."),
        ("model.lr=" + "[" * 5000, "nested more than 30 deep"),
        ("model.lr=!!python/object/apply:os.mkdir [x]", "could not determine a constructor"),
        (f"data.resize={laughs!r}", "no value has more than 20 stars"),
    ],
)
def test_tricks_in_overrides(override, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError, match=message) as caught:
        resolve(apply_overrides({}, [override]))
    assert len(str(caught.value)) < 3000
    assert not list(tmp_path.iterdir())


def test_a_value_that_does_nothing_but_confuse():
    text = "`rm -rf .`; $(rm -rf .) && ../../x | %s {0}"
    config = apply_overrides({}, [f'data.root="{text}"'])
    assert resolve(config).data.root == text
    assert yaml.safe_load(as_yaml(resolve(config)))["data"]["root"] == text


@pytest.mark.parametrize("name", ["__class__", "__init__", "self", "args"])
def test_options_of_a_method_are_its_parameters(name):
    with pytest.raises(ValueError, match=r"the options of svd-trunc are bound; got \{"):
        PooledTraining(method="svd-trunc", method_options={name: 1}, num_classes=3)
