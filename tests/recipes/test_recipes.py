"""Recipes are composed of families, methods and protocols."""

import math

import pytest

from rootpool.nn import METHODS
from rootpool.recipes import (
    HYBRID,
    SettingsError,
    apply_overrides,
    families,
    load_recipe,
    merge,
    methods,
    recipe,
    recipe_names,
)
from rootpool.train.settings import hybrid_schedule, resolve


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_can_be_used(name):
    made = load_recipe(name)
    settings = resolve(made.config)
    assert made.name == name
    assert settings.model.method == made.method
    assert (settings.hybrid is not None) == (made.protocol == HYBRID)
    if settings.hybrid is not None:
        assert settings.hybrid.start != made.method
        assert hybrid_schedule(settings).decay_epoch == settings.model.milestones[-1]


@pytest.mark.parametrize("family", families())
def test_every_family_has_the_methods_that_the_paper_compares(family):
    for method in ("gap", "isqrt-cov", "mpn-cov", "svd-pade"):
        assert recipe(family, method).name == f"{family}-{method}"


def test_a_family_can_go_without_what_its_base_has():
    base, head = families()["birds-lite"], families()["birds-head"]
    assert (list(base.protocols), base.stands_for) == ([HYBRID], "birds")
    assert (head.protocols, head.stands_for, head.layout) == ({}, None, None)
    assert recipe("birds-whole", "exact").needs["--weights"] == "a checkpoint of birds-head-exact"


def test_names_read_from_the_source_are_those_of_the_classes():
    ours = {n: m for n, m in METHODS.items() if m.__module__.startswith("rootpool.")}
    assert methods._written() == {name: method.source for name, method in ours.items()}


def test_imagenet_settings_of_the_appendix():
    alexnet = load_recipe("alexnet-imagenet-svd-pade-hybrid").config
    assert math.isclose(alexnet["model"]["lr"], 10**-1.1)
    assert alexnet["model"]["weight_decay"] == 5e-4
    assert alexnet["model"]["milestones"] == [10, 20]
    assert (alexnet["trainer"]["max_epochs"], alexnet["data"]["batch_size"]) == (30, 128)
    assert alexnet["hybrid"]["warmup_epochs"] == 1
    for name in ("resnet50-imagenet-exact-hybrid", "resnet101-imagenet-exact-hybrid"):
        resnet = load_recipe(name).config
        assert math.isclose(resnet["model"]["lr"], 10**-1.1)
        assert resnet["model"]["weight_decay"] == 1e-4
        assert resnet["model"]["milestones"] == [30, 45]
        assert (resnet["trainer"]["max_epochs"], resnet["data"]["batch_size"]) == (60, 256)
        assert resnet["hybrid"]["warmup_epochs"] == 2


@pytest.mark.parametrize("family", ["birds", "dogs", "cars"])
def test_fine_grained_settings_of_the_appendix(family):
    config = recipe(family, "exact").config
    model = {"lr": 6e-3, "backbone_lr": 1.2e-3, "momentum": 0.9, "weight_decay": 1e-4}
    assert config["model"].items() >= model.items()
    assert "milestones" not in config["model"]
    assert config["data"]["batch_size"] == 10
    assert config["data"]["crop"] == 448
    assert config["trainer"]["max_epochs"] == 50


def test_fine_tuning_starts_from_the_best_training_of_the_method():
    assert recipe("birds", "exact").needs["--weights"].endswith("resnet50-imagenet-exact-hybrid")
    assert recipe("birds", "gap").needs["--weights"].endswith("resnet50-imagenet-gap")


def test_one_method_may_have_other_settings():
    assert recipe("patches", "svd-topn").config["model"]["method_options"] == {"count": 50}
    assert "method_options" not in recipe("patches", "svd-trunc").config["model"]


def test_a_changed_recipe_does_not_change_the_next():
    recipe("patches", "exact").config["model"]["milestones"].append(7)
    assert recipe("patches", "exact").config["model"]["milestones"] == [4, 6]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: load_recipe("alexnet-svd-pade"), "unknown recipe .*; did you mean alexnet"),
        (lambda: recipe("cats", "exact"), "unknown family of recipes 'cats'"),
        (lambda: recipe("patches", "pade"), "unknown method 'pade'; did you mean svd-pade"),
        (lambda: recipe("birds", "exact", "hybrid"), "birds has no recipe 'hybrid' for exact"),
        (lambda: load_recipe("nowhere.yaml"), r"there is no recipe nowhere\.yaml"),
    ],
)
def test_what_there_is_not_is_named(call, message):
    with pytest.raises(SettingsError, match=message):
        call()


# --------------------------------------------------------------------------------------------------
# A user's own


@pytest.mark.parametrize("base", ["patches-svd-trunc", "patches"])
def test_an_own_recipe_on_top_of_ours(base, tmp_path):
    (tmp_path / "mine.yaml").write_text(f"base: {base}\nmodel: {{lr: 0.02}}\n")
    mine = load_recipe(str(tmp_path / "mine.yaml"))
    assert mine.name == "mine"
    expected = load_recipe(base) if base in recipe_names() else families()[base]
    assert mine.config == merge(expected.config, {"model": {"lr": 0.02}})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("base: cats", "unknown recipe 'cats'"),
        ("base: [patches]", r"base must be a str, got \['patches'\]"),
        ("needs: --data", "needs must be a dict, got '--data'"),
        ("- 1", "is not a recipe: it has no keys"),
        ("model: [", "is not YAML"),
        ("model: !!python/object/apply:os.mkdir [x]", "is not YAML: could not determine a constr"),
    ],
)
def test_a_file_that_is_not_a_recipe(text, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(SettingsError, match=message):
        load_recipe("mine.yaml")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.yaml"]


# --------------------------------------------------------------------------------------------------
# Dictionaries


def test_overrides_are_read_as_yaml_and_numbers_as_people_write_them():
    config = apply_overrides(
        {"model": {"lr": 0.1, "milestones": [4, 6]}},
        ["model.lr=1e-3", "model.milestones=[2]", "model.weights=null", "data.root=a=b"],
    )
    assert config == {
        "model": {"lr": 0.001, "milestones": [2], "weights": None},
        "data": {"root": "a=b"},
    }


@pytest.mark.parametrize("override", ["model.lr", "=3", "model.lr=[1,"])
def test_malformed_overrides(override):
    with pytest.raises(SettingsError, match=r"key=value|not YAML"):
        apply_overrides({}, [override])


def test_merging_leaves_its_arguments_alone():
    base = {"a": {"b": 1}}
    assert merge(base, {"a": {"c": 2}}, {"a": 3}) == {"a": 3}
    assert base == {"a": {"b": 1}}
