"""The demo's page, from results made up so that the right answers are known."""

import re

import pytest

from rootpool.paper.demo import demo_trials
from rootpool.paper.demo_page import comparisons, demo_page, final_errors

OFFSETS = {"gap": 8.0, "isqrt-cov": 0.0, "exact": 1.0, "exact, hybrid": -1.0}


def results(seeds: int, offsets=OFFSETS) -> list[dict]:
    made = []
    for label, offset in offsets.items():
        for seed in range(seeds):
            noise = 0.02 * (seed * len(label) % 5)  # another in each run
            errors = [60 - 2 * epoch + offset + noise for epoch in range(8)]
            made.append(
                {
                    "label": label,
                    "method": label.removesuffix(", hybrid"),
                    "protocol": "hybrid" if "hybrid" in label else "standalone",
                    "seed": seed,
                    "seconds": 20.0,
                    "curves": [
                        {
                            "epoch": k,
                            "val_error": e + 0.01 * seed,
                            "train_error": e - 5,
                            "train_loss": 1.0,
                        }
                        for k, e in enumerate(errors)
                    ],
                    "spectrum": [
                        {
                            "step": s,
                            "epoch": s // 63,
                            "condition_mean": 1e10,
                            "eigenvalue_ratio": 3.0,
                        }
                        for s in range(0, 504, 63)
                    ],
                }
            )
    return made


def test_the_last_epoch_counts_and_the_best_stands_beside_it():
    row = final_errors(results(1, {"gap": 0.0}))[0]
    assert row["val_error"] == 46.0
    assert row["best_error"] == 46.0
    worse = results(1, {"gap": 0.0})
    worse[0]["curves"][-1]["val_error"] = 70.0
    assert final_errors(worse)[0]["val_error"] == 70.0
    assert final_errors(worse)[0]["best_error"] == 48.0


def test_the_questions_of_the_paper_are_asked_of_the_right_pairs():
    asked = comparisons(final_errors(results(3)))
    pairs = [[(c.run, c.baseline) for c in found] for found in asked.values()]
    assert pairs == [
        [("isqrt-cov", "gap"), ("exact", "gap")],
        [("exact, hybrid", "exact")],
        [("exact", "isqrt-cov")],
        [("exact, hybrid", "isqrt-cov")],
    ]
    assert asked["Does the hybrid protocol beat standalone training?"][
        0
    ].difference.mean == pytest.approx(-2, abs=0.1)


def test_what_the_paper_says_stands_beside_what_shows():
    text = demo_page(results(5)).markdown()
    assert (
        "The paper: yes, for every SVD method. Here 1 of 1 differences are for the better" in text
    )
    assert "Here 0 of 1 differences are for the better and 1 for the worse beyond noise" in text


def test_one_seed_claims_nothing():
    text = demo_page(results(1)).markdown()
    assert "nothing is known of the spread" in text
    assert "rootpool demo --seeds 5" in text
    assert "±" not in re.sub(r"standard deviation.*", "", text)


def test_every_run_of_the_demo_is_in_the_table():
    text = demo_page(results(2)).markdown()
    for label in OFFSETS:
        assert re.search(rf"^\| {label} \|", text, re.MULTILINE)


def test_the_default_demo_is_small_and_the_whole_has_every_method():
    from rootpool.nn import method_names

    assert len(demo_trials(["gap", "isqrt-cov", "mpn-cov", "svd-pade", "exact"], 1)) == 8
    whole = demo_trials([*method_names("ours", "paper"), "gap"], 5)
    assert len(whole) == 5 * 18
    assert len({trial.key for trial in whole}) == 90


def test_hostile_labels_stay_text():
    text = demo_page(
        results(2, {"gap": 0.0, "<script>alert(1)</script>": 1.0, "isqrt-cov": 2.0})
    ).html()
    assert "<script>" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
