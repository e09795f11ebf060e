"""Recipes are composed of families, methods and protocols."""

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


def test_every_method_can_be_used():
    for method in METHODS:
        assert resolve(recipe("patches", method).config).model.method == method


LARGE = {"lr": pytest.approx(10**-1.1), "momentum": 0.9}
FINE = {"lr": 6e-3, "backbone_lr": 1.2e-3, "momentum": 0.9, "weight_decay": 1e-4}
RESNET = (LARGE | {"weight_decay": 1e-4, "milestones": [30, 45]}, 60, 2, 256, 224)
PAPER = {
    "alexnet-imagenet": (LARGE | {"weight_decay": 5e-4, "milestones": [10, 20]}, 30, 1, 128, 224),
    **dict.fromkeys(("resnet50-imagenet", "resnet101-imagenet"), RESNET),
    **dict.fromkeys(("birds", "dogs", "cars"), (FINE, 50, None, 10, 448)),
}


@pytest.mark.parametrize("family", PAPER)
def test_settings_of_the_appendix(family):
    model, epochs, warmup, batch, crop = PAPER[family]
    config = recipe(family, "svd-pade", hybrid=warmup is not None).config
    found = {key: config["model"].get(key) for key in (*model, "milestones")}
    assert found == {"milestones": None, **model}
    assert config["trainer"]["max_epochs"] == epochs
    assert config.get("hybrid", {}).get("warmup_epochs") == warmup
    assert (config["data"]["batch_size"], config["data"].get("crop")) == (batch, crop)


@pytest.mark.parametrize("family", families())
def test_the_families_of_the_paper_train_its_own_form(family):
    assert {f"{method}-released" for method in RELEASED} == set(method_names("released"))
    form = "-released" * (family in PAPER)
    for asked, method in (
        ("svd-pade", f"svd-pade{form}"),
        ("svd-pade-published", "svd-pade-published"),
        ("svd-pade-released", "svd-pade-released"),
        ("isqrt-cov", "isqrt-cov"),
    ):
        made = recipe(family, asked)
        settings = resolve(made.config)
        assert (settings.model.method, settings.hybrid) == (method, None)
        assert (made.method, made.name) == (method, f"{family}-{method}")
    assert families()[family].time  # and hardware


def test_one_method_may_have_other_settings():
    for form in ("", "-published", "-released"):
        model = recipe("patches", f"svd-topn{form}").config["model"]
        assert model["method_options"] == {"count": 50}
    assert "method_options" not in recipe("patches", "svd-trunc").config["model"]


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


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("", ("alexnet-svd-pade",), "unknown recipe .*; did you mean alexnet"),
        ("", ("birds", "exact", True), "birds has no hybrid schedule; leave out hybrid, or"),
        ("", ("patches", "gap", True), "there is no hybrid training of gap: it b"),
        ("", ("patches", "isqrt-cov", True), "no hybrid training of isqrt-cov"),
        ("", ("nowhere.yaml",), r"there is no recipe nowhere\.yaml"),
        ("seed: 1", ("mine.yaml", None, True), r"mine\.yaml has no hybrid schedule; give one"),
        ("base: cats", ("mine.yaml",), "unknown recipe 'cats'"),
        ("base: [patches]", ("mine.yaml",), r"base must be a str, got \['patches'\]"),
        ("needs: --data", ("mine.yaml",), "needs must be a dict, got '--data'"),
        ("- 1", ("mine.yaml",), "does not contain settings: it has no keys"),
        ("model: [", ("mine.yaml",), "is not YAML"),
        (
            "model: !!python/object/apply:os.mkdir [x]",
            ("mine.yaml",),
            "is not YAML: could not determine a constr",
        ),
    ],
)
def test_what_there_is_not_is_named(text, arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(SettingsError, match=message):
        load_recipe(*arguments)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.yaml"]


def test_overrides_are_read_as_yaml_and_change_a_copy():
    base = {"model": {"lr": 0.1, "milestones": [4, 6]}}
    overrides = ["model.lr=1e-3", "model.milestones=[2]", "model.weights=null", "data.root=a=b"]
    assert apply_overrides(base, overrides) == {
        "model": {"lr": 0.001, "milestones": [2], "weights": None},
        "data": {"root": "a=b"},
    }
    assert base == {"model": {"lr": 0.1, "milestones": [4, 6]}}
