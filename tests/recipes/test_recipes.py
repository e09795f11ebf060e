"""Recipes are composed of families, methods and protocols."""

import math

import pytest

from rootpool.nn import METHODS, method_names
from rootpool.train import (
    SettingsError,
    apply_overrides,
    families,
    load_recipe,
    merge,
    recipe,
    resolve,
)
from rootpool.train.recipe import RELEASED


@pytest.mark.parametrize("family", [name for name, f in families().items() if f.hybrid])
def test_a_hybrid_training_warms_up_until_the_last_decay(family):
    made = recipe(family, "exact", hybrid=True)
    settings = resolve(made.config)
    assert made.name == f"{family}-exact-hybrid"
    assert settings.hybrid.decay_epoch == settings.model.milestones[-1]


@pytest.mark.parametrize("method", METHODS)
def test_every_method_can_be_used(method):
    assert resolve(recipe("patches", method).config).model.method == method


def test_a_family_can_go_without_what_its_base_has():
    base, head = families()["birds-lite"], families()["birds-head"]
    assert (base.hybrid, base.reported_as) == ({"switch_epoch": 4, "warmup_epochs": 1}, "birds")
    assert (head.hybrid, head.reported_as, head.layout) == (None, None, None)


def test_imagenet_settings_of_the_appendix():
    alexnet = recipe("alexnet-imagenet", "svd-pade", hybrid=True).config
    assert math.isclose(alexnet["model"]["lr"], 10**-1.1)
    assert alexnet["model"]["weight_decay"] == 5e-4
    assert alexnet["model"]["milestones"] == [10, 20]
    assert (alexnet["trainer"]["max_epochs"], alexnet["data"]["batch_size"]) == (30, 128)
    assert alexnet["hybrid"]["warmup_epochs"] == 1
    for name in ("resnet50-imagenet", "resnet101-imagenet"):
        resnet = recipe(name, hybrid=True).config
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


PAPER = ("alexnet-imagenet", "resnet50-imagenet", "resnet101-imagenet", "birds", "dogs", "cars")


@pytest.mark.parametrize("family", families())
def test_the_families_of_the_paper_train_its_own_form(family):
    assert {f"{method}-released" for method in RELEASED} == set(method_names("released"))
    made = recipe(family, "svd-pade")
    settings = resolve(made.config)
    form = "-released" * (family in PAPER)
    assert (settings.model.method, settings.hybrid) == (made.method, None)
    assert made.method == f"svd-pade{form}"
    assert made.name == f"{family}-svd-pade{form}"
    assert made.about.endswith(f"svd-pade{form}")
    for asked in ("svd-pade-published", "svd-pade-released"):
        assert (recipe(family, asked).method, recipe(family, asked).name) == (
            asked,
            f"{family}-{asked}",
        )
    assert recipe(family, "isqrt-cov").method == "isqrt-cov"
    assert families()[family].time  # and hardware


def test_fine_tuning_starts_from_the_best_training_of_the_method():
    assert recipe("birds", "exact").needs["--weights"].endswith("--method exact --hybrid")
    assert recipe("birds", "gap").needs["--weights"].endswith("resnet50-imagenet --method gap")


def test_one_method_may_have_other_settings():
    for form in ("", "-published", "-released"):
        model = recipe("patches", f"svd-topn{form}").config["model"]
        assert model["method_options"] == {"count": 50}
    assert "method_options" not in recipe("patches", "svd-trunc").config["model"]


def test_a_changed_recipe_does_not_change_the_next():
    recipe("patches", "exact").config["model"]["milestones"].append(7)
    assert recipe("patches", "exact").config["model"]["milestones"] == [4, 6]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: load_recipe("alexnet-svd-pade"), "unknown recipe .*; did you mean alexnet"),
        (lambda: recipe("cats", "exact"), "unknown recipe 'cats'"),
        (
            lambda: recipe("birds", hybrid=True),
            "birds has no hybrid schedule; leave out hybrid, or",
        ),
        (lambda: recipe("patches", "gap", hybrid=True), "there is no hybrid training of gap: it b"),
        (lambda: recipe("patches", "isqrt-cov", True), "no hybrid training of isqrt-cov"),
        (lambda: load_recipe("nowhere.yaml"), r"there is no recipe nowhere\.yaml"),
    ],
)
def test_what_there_is_not_is_named(call, message):
    with pytest.raises(SettingsError, match=message):
        call()


# --------------------------------------------------------------------------------------------------
# A user's own


def test_an_own_recipe_on_top_of_ours(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("base: patches\nmodel: {lr: 0.02, method: svd-topn}\n")
    mine, ours = load_recipe(str(file)), recipe("patches", "svd-topn")
    assert (mine.name, mine.family, mine.method) == ("mine", "patches", "svd-topn")
    assert mine.config == merge(ours.config, {"model": {"lr": 0.02}})
    other, ours = load_recipe(str(file), "exact", hybrid=True), recipe("patches", hybrid=True)
    assert other.name == "mine-exact-hybrid"
    assert other.config == merge(ours.config, {"model": {"lr": 0.02}})
    file.write_text("model: {lr: 0.02}\n")
    assert "--data" in load_recipe(str(file)).needs  # and not the embedded photographs
    assert not mine.needs
    with pytest.raises(SettingsError, match=r"mine\.yaml has no hybrid schedule; give one"):
        load_recipe(str(file), hybrid=True)


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
