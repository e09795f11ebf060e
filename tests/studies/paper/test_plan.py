"""Which runs the entries rest on."""

from dataclasses import replace

import pytest

from rootpool.train import SettingsError
from rootpool.train.settings import resolve
from studies.paper.plan import OURS, Plan


def test_a_comparison_trains_the_entrys_methods_and_ours():
    trials = Plan(seeds=2).comparison(["svd-pade", "isqrt-cov"])
    found = [(t.tags["method"], t.tags["protocol"], t.tags["seed"]) for t in trials]
    expected = [(m, p) for m in ("svd-pade", *OURS) for p in ("standalone", "hybrid")]
    expected.append(("isqrt-cov", "standalone"))  # it is the first stage of hybrid runs
    assert sorted(found) == sorted((*run, seed) for run in expected for seed in (0, 1))


def test_chosen_methods_replace_the_entrys():
    plan = Plan(seeds=1, methods=("gap", "svd-pi"))
    found = {t.tags["method"] for t in plan.comparison(["svd-pade"])}
    assert found == {"gap", "svd-pi", "svd-pi, fused"}


def test_precisions_differ_in_precision_alone():
    trials = Plan(seeds=1).precisions(["mpn-cov"])
    doubles, singles = (
        [t for t in trials if t.tags["precision"] == p] for p in ("float64", "float32")
    )
    runs = [(t.tags["method"], t.tags["protocol"]) for t in doubles]
    assert runs == [(t.tags["method"], t.tags["protocol"]) for t in singles]
    assert ("mpn-cov", "standalone") in runs
    assert ("mpn-cov, fused", "hybrid") in runs
    a, b = resolve(doubles[0].config), resolve(singles[0].config)
    assert (a.model.compute_dtype, b.model.compute_dtype) == (None, "float32")
    same = replace(b, model=replace(b.model, compute_dtype=None))
    assert a == same


def test_warm_ups_keep_the_last_decay():
    plan = Plan(seeds=1)
    *hybrid, baseline = plan.warm_ups("svd-pade", "isqrt-cov")
    assert resolve(baseline.config).hybrid is None
    schedules = {t.tags["warmup"]: resolve(t.config).hybrid for t in hybrid}
    assert all(count == schedule.warmup_epochs for count, schedule in schedules.items())
    assert {schedule.decay_epoch for schedule in schedules.values()} == {plan.milestones[-1]}
    # The recipe's own warm-up is one of them, so that its run is shared.
    (own,) = plan.trials(["svd-pade"], ["hybrid"])
    assert own.key in {trial.key for trial in hybrid}


def test_data_chooses_the_recipes(tmp_path):
    for name in ("train", "val"):
        (tmp_path / name).mkdir()
    plan = Plan.for_data(str(tmp_path))
    assert plan.family == "alexnet-imagenet"
    assert not plan.miniature
    (trial, *_) = plan.trials(["exact"])
    assert trial.config["data"]["root"] == str(tmp_path)
    assert Plan.for_data(str(tmp_path), "resnet50-imagenet").milestones == [30, 45]


def test_fine_tuning_needs_weights(tmp_path):
    for name in ("images.txt", "image_class_labels.txt", "train_test_split.txt", "classes.txt"):
        (tmp_path / name).touch()
    (tmp_path / "images").mkdir()
    with pytest.raises(SettingsError, match=r"birds-\* need --weights \(a checkpoint .* not given"):
        Plan.for_data(str(tmp_path), "birds")
    with pytest.raises(SettingsError, match=r"gone\.ckpt does not exist"):
        Plan.for_data(str(tmp_path), weights=str(tmp_path / "gone.ckpt"))
    weights = tmp_path / "weights.ckpt"
    weights.touch()
    plan = Plan.for_data(str(tmp_path), weights=str(weights))
    assert (plan.family, plan.switch) == ("birds", None)
    assert plan.trials(["exact"])[0].config["model"]["weights"] == str(weights)
    small = Plan.for_data(str(tmp_path))
    assert (small.family, small.reported_as) == ("birds-lite", "birds")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seeds": 0}, "seeds must be positive, got 0"),
        ({"family": "patchs"}, "unknown family of recipes 'patchs'; did you mean patches"),
        ({"methods": ("svd-pad",)}, "unknown method 'svd-pad'; did you mean svd-pade"),
    ],
)
def test_what_cannot_be_run(options, words):
    with pytest.raises(SettingsError, match=words):
        Plan(**options)


def test_unknown_layout(tmp_path):
    with pytest.raises(SettingsError, match="does not say which recipes to use; choose them with"):
        Plan.for_data(str(tmp_path))
