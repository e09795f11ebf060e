"""Every shipped recipe means what its name says."""

import math

import pytest

from rootpool.nn import METHODS
from rootpool.train.recipes import load_recipe, recipe_names
from rootpool.train.settings import SettingsError, hybrid_schedule, resolve

ALL = [*METHODS, "gap"]
HYBRID = [method for method in METHODS if method != "isqrt-cov"]
NETWORKS = {"alexnet-imagenet": 30, "resnet50-imagenet": 60, "resnet101-imagenet": 60, "patches": 8}
FINE_GRAINED = ["birds", "dogs", "cars"]


def test_there_is_a_recipe_for_every_row_of_the_paper_s_tables():
    expected = {f"{network}-{method}" for network in [*NETWORKS, *FINE_GRAINED] for method in ALL}
    expected |= {f"{network}-{method}-hybrid" for network in NETWORKS for method in HYBRID}
    assert set(recipe_names()) == expected
    assert len(recipe_names()) == 102


@pytest.mark.parametrize("name", recipe_names())
def test_a_recipe_parses_and_means_what_its_name_says(name):
    recipe = load_recipe(name)
    settings = resolve(recipe.config)
    assert settings.model.method in name
    assert recipe.about
    hybrid = name.endswith("-hybrid")
    assert (settings.hybrid is not None) == hybrid == recipe.about.endswith(", hybrid")
    if hybrid:
        assert settings.hybrid.start == "isqrt-cov"
        assert hybrid_schedule(settings).decay_epoch == settings.model.milestones[-1]
    assert set(recipe.needs) == (
        set()
        if name.startswith("patches")
        else {"--data"}
        if "imagenet" in name
        else {"--data", "--weights"}
    )


@pytest.mark.parametrize("name", [n for n in recipe_names() if "imagenet" in n])
def test_imagenet_settings_of_the_appendix(name):
    settings = resolve(load_recipe(name).config)
    alexnet = name.startswith("alexnet")
    assert math.isclose(settings.model.lr, 10**-1.1)
    assert settings.model.momentum == 0.9
    assert settings.model.weight_decay == (5e-4 if alexnet else 1e-4)
    assert settings.model.milestones == ([10, 20] if alexnet else [30, 45])
    assert settings.trainer.max_epochs == (30 if alexnet else 60)
    assert settings.data.batch_size == (128 if alexnet else 256)
    assert (settings.data.resize, settings.data.crop) == (256, 224)
    if settings.hybrid is not None:
        assert settings.hybrid.warmup_epochs == (1 if alexnet else 2)


@pytest.mark.parametrize("name", [f"{data}-{method}" for data in FINE_GRAINED for method in ALL])
def test_fine_grained_settings_of_the_appendix(name):
    settings = resolve(load_recipe(name).config)
    assert (settings.model.lr, settings.model.backbone_lr) == (6e-3, 1.2e-3)
    assert (settings.model.momentum, settings.model.weight_decay) == (0.9, 1e-4)
    assert (settings.data.batch_size, settings.data.crop, settings.trainer.max_epochs) == (
        10,
        448,
        50,
    )
    assert settings.model.milestones is None


def test_an_unknown_recipe_suggests_the_nearest():
    with pytest.raises(
        SettingsError, match=r"unknown recipe 'alexnet-svd-pade'; did you mean alexnet"
    ):
        load_recipe("alexnet-svd-pade")


# --------------------------------------------------------------------------------------------------
# Recipes from strangers


@pytest.mark.parametrize(
    "name", ["../base/patches", "base/patches", "/etc/passwd", "..", "", "a\0b"]
)
def test_a_name_is_no_path(name):
    with pytest.raises(SettingsError, match="unknown recipe"):
        load_recipe(name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("base: ../base/patches", r"unknown recipe '\.\./base/patches'"),
        ("base: ../../../../secret", r"unknown recipe '\.\./\.\./\.\./\.\./secret'"),
        ("base: [patches]", r"base must be a str, got \['patches'\]"),
        ("about: {a: 1}", "about must be a str"),
        ("needs: --data", "needs must be a dict, got '--data'"),
        ("- 1", "is no recipe: it holds no keys"),
        ("model: !!python/object/apply:os.mkdir [x]", "is not YAML: could not determine a constr"),
        ("x: " + "y" * 100_000, "is not YAML: it has more than 100000 characters"),
        ("\udcff", "is not YAML: 'utf-8' codec can't decode"),
    ],
)
def test_a_hostile_recipe_is_refused_and_does_nothing(text, message, tmp_path, monkeypatch):
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (tmp_path / "mine.yaml").write_text(text, errors="surrogateescape")
    with pytest.raises(SettingsError, match=message):
        load_recipe("../mine.yaml")
    assert not list(folder.iterdir())


def test_the_output_of_a_recipe_without_a_name_would_be_the_folder_above(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "...yaml").write_text("base: patches")
    with pytest.raises(SettingsError, match=r"a recipe needs a name, .* got \.\.\.yaml"):
        load_recipe("...yaml")


def test_a_recipe_of_endless_length(tmp_path):
    (tmp_path / "zeros.yaml").symlink_to("/dev/zero")
    with pytest.raises(SettingsError, match="is not YAML: it has more than 100000 characters"):
        load_recipe(str(tmp_path / "zeros.yaml"))
