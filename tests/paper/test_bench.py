"""Which runs the entries rest on."""

import pytest

from rootpool.nn import method_names
from rootpool.paper.bench import Bench, families
from rootpool.paper.demo import demo_trials
from rootpool.train.settings import SettingsError, hybrid_schedule, resolve


def test_the_comparison_is_the_demo_so_that_results_are_shared():
    keys = [t.key for t in Bench(seeds=1).comparison(methods=["svd-pade", "gap"])]
    assert keys == [t.key for t in demo_trials(["svd-pade", "gap"], 1)]
    labels = {t.label for t in Bench(seeds=1).comparison()}
    assert labels >= {*method_names("ours", "paper"), "gap", "exact, hybrid"}


def test_precisions_differ_in_precision_alone():
    double, _, single, _ = Bench(seeds=1).precisions()
    assert (double.label, single.label) == ("mpn-cov", "mpn-cov, float32")
    a, b = resolve(double.config), resolve(single.config)
    assert (a.model.compute_dtype, b.model.compute_dtype) == ("float64", "float32")
    b.model.compute_dtype = "float64"
    assert a == b


def test_warm_ups_keep_the_last_decay():
    trials = Bench(seeds=1).warm_ups()
    schedules = {t.label: hybrid_schedule(resolve(t.config)) for t in trials}
    assert schedules.pop("isqrt-cov") is None
    assert [s.warmup_epochs for s in schedules.values()] == [0, 1, 2, 3]
    assert {s.decay_epoch for s in schedules.values()} == {6}
    (own,) = (t for t in demo_trials(["svd-pade"], 1) if t.tags["protocol"] == "hybrid")
    assert own.key == next(t.key for t in trials if t.label == "svd-pade, warm-up 1")


def test_data_chooses_the_recipes(tmp_path):
    for name in ("train", "val"):
        (tmp_path / name).mkdir()
    bench = Bench.of(str(tmp_path), None, None, 2)
    assert bench.family == "alexnet-imagenet"
    assert not bench.miniature
    (trial, *_) = bench.comparison(methods=["exact"])
    assert trial.config["data"]["root"] == str(tmp_path)
    assert Bench.of(str(tmp_path), "resnet50-imagenet", None, 2).milestones == [30, 45]


def test_fine_tuning_needs_weights(tmp_path):
    for name in ("images.txt", "image_class_labels.txt", "train_test_split.txt", "classes.txt"):
        (tmp_path / name).touch()
    (tmp_path / "images").mkdir()
    with pytest.raises(SettingsError, match=r"birds-\* need --weights \(a checkpoint .* not given"):
        Bench.of(str(tmp_path), None, None, 1)
    with pytest.raises(SettingsError, match=r"gone\.ckpt does not exist"):
        Bench.of(str(tmp_path), None, str(tmp_path / "gone.ckpt"), 1)
    weights = tmp_path / "weights.ckpt"
    weights.touch()
    bench = Bench.of(str(tmp_path), None, str(weights), 1)
    assert bench.switch is None
    assert bench.comparison(methods=["exact"])[0].config["model"]["weights"] == str(weights)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seeds": 0}, "seeds must be positive, got 0"),
        ({"family": "cats"}, "no recipes begin with 'cats'; there are alexnet-imagenet, birds"),
    ],
)
def test_what_cannot_be_run(options, words):
    with pytest.raises(SettingsError, match=words):
        Bench(**options)


def test_unknown_layout(tmp_path):
    with pytest.raises(SettingsError, match="name the recipes to use by --recipes, one of alexnet"):
        Bench.of(str(tmp_path), None, None, 1)
    assert "patches" in families()
