"""Student's t against its closed forms, Holm against the closed testing that it stands for."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rootpool.report.statistics import (
    compare,
    comparison_table,
    describe,
    difference_by_seed,
    holm,
    paired_difference,
)

A = [12.4, 11.9, 13.1, 12.2, 12.8]
B = [13.0, 13.1, 13.2, 12.9, 14.1]


# P(|T| > t) in closed form.
TWO_SIDED = {
    1: lambda t: 1 - 2 / math.pi * math.atan(t),
    2: lambda t: 1 - t / math.sqrt(2 + t * t),
    4: lambda t: 1 - t / math.sqrt(4 + t * t) * (1 + 2 / (4 + t * t)),
}


@pytest.mark.parametrize("n", [2, 3, 5])
def test_interval_and_p_value(n):
    result, d = paired_difference(A[:n], B[:n]), np.subtract(A[:n], B[:n])
    error, p = d.std(ddof=1) / math.sqrt(n), TWO_SIDED[n - 1]
    assert (result.mean, result.n) == (pytest.approx(d.mean()), n)
    assert result.p_value == pytest.approx(p(abs(d.mean()) / error), rel=1e-9)
    assert result.low < result.mean < result.high
    for end in (result.low, result.high):
        assert p(abs(end - d.mean()) / error) == pytest.approx(0.05, rel=1e-9)
    assert result.clear == (result.low > 0 or result.high < 0)


@pytest.mark.parametrize(
    ("a", "b", "mean"),
    [
        ([3.0], [1.0], 2.0),
        ([3.0, 4.0, 5.0], [1.0, 2.0, 3.0], 2.0),
        # 0.1 is the difference each time, but not to the last bit
        ([0.4, 0.3, 0.2, 1.2], [0.3, 0.2, 0.1, 1.1], 0.1),
        ([0.1 + 0.2, 0.5], [0.3, 0.5], 0.0),
    ],
)
def test_without_spread_there_is_no_interval(a, b, mean):
    result = paired_difference(a, b)
    assert result.mean == pytest.approx(mean, abs=1e-15)
    assert (result.low, result.high, result.p_value, result.clear) == (None, None, None, False)


def closed_testing(p_values):
    """Reject i if every set of hypotheses with i in it is rejected by Bonferroni."""
    m = len(p_values)
    sets = [s for k in range(1, m + 1) for s in itertools.combinations(range(m), k)]
    of_set = {s: min(1.0, len(s) * min(p_values[i] for i in s)) for s in sets}
    return [max(of_set[s] for s in sets if i in s) for i in range(m)]


@given(st.lists(st.floats(0, 1), max_size=6))
def test_holm_is_closed_testing(p_values):
    assert holm(p_values) == pytest.approx(closed_testing(p_values))


def records(**runs):
    return [
        {"run": run, "seed": seed, "val_error": value}
        for run, values in runs.items()
        for seed, value in enumerate(values)
    ]


def test_compare_pairs_by_seed_and_corrects():
    rows = records(a=A, b=B, c=[a + x for a, x in zip(A, (0.3, -0.2, 0.1, -0.1, 0.0), strict=True)])
    rows = sorted(rows, key=lambda row: -row["val_error"])  # the order of records means nothing
    rows.append({"run": "a", "seed": 99, "val_error": 50.0})  # and this seed has no partner
    first, second = compare(rows, [("a", "b"), ("c", "a")])
    assert first.mean == pytest.approx(paired_difference(A, B).mean)
    assert first.p_value == pytest.approx(paired_difference(A, B).p_value)
    assert first.corrected_p == pytest.approx(2 * first.p_value)
    assert first.clear
    assert not second.clear
    assert first.record()["label"] == "a − b"
    assert first.record()["low"] == first.low
    assert (first.record()["clear"], second.record()["clear"]) == (True, False)


OTHER_SEED = [{"run": "a", "seed": 0, "val_error": 1}, {"run": "b", "seed": 1, "val_error": 1}]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: paired_difference([], []), "number of values on both sides, got 0 and 0"),
        (lambda: paired_difference([1.0], [1.0, 2.0]), "got 1 and 2"),
        (lambda: paired_difference([1.0, math.nan], [1, 3]), "got nan among the values; leave out"),
        (lambda: compare(records(a=A), [("a", "z")]), "no records of z; there are a"),
        (lambda: compare(records(a=A) * 2, [("a", "a")]), "two records of 'a' with seed 0"),
        (lambda: compare(OTHER_SEED, [("a", "b")]), "'a' and 'b' have no seed in common"),
        (lambda: holm([0.5, math.nan]), "p-values must be between 0 and 1"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_detectable_differences_are_found_four_times_of_five():
    """By simulation, of pairs whose true difference is what 12 of them can tell."""
    generator = np.random.default_rng(0)
    n, spread = 12, 0.5

    def sample(true):
        pairs = (generator.normal(true, spread, n) for _ in range(400))
        return [paired_difference(differences, [0.0] * n) for differences in pairs]

    detectable = np.mean([d.detectable for d in sample(0)])
    assert np.mean([d.clear for d in sample(detectable)]) == pytest.approx(0.8, abs=0.06)


def test_a_sentence_after_correction_says_so():
    shifted = [a + 0.9 for a in A]
    weak = [x + e for x, e in zip(shifted, (0.9, -0.9, 0.8, -0.4, 0.2), strict=True)]
    alone = paired_difference(weak, A)
    pairs = [("weak", "a"), ("b", "a"), ("b", "weak")]
    together = compare(records(a=A, b=B, weak=weak), pairs)[0]
    assert alone.clear != together.clear, "this example is significant only alone"
    assert describe(alone).startswith("worse by 1.02")
    assert describe(together).startswith("within noise: worse by 1.02")
    assert "after Holm's correction for 3 comparisons)" in describe(together)


def test_a_table_of_comparisons():
    noisy = [a + e for a, e in zip(A, (0.3, -0.2, 0.1, -0.1, 0.0), strict=True)]
    rows = records(a=A, c=noisy, far=[x + 3 for x in noisy], one=[1.0])
    pairs = [("a", "far"), ("far", "a"), ("c", "a"), ("one", "a")]
    table = comparison_table(compare(rows, pairs), caption="x")
    assert table.headers[3] == "p, corrected for 3"
    first = table.rows[0][2]
    assert first.value + first.spread == pytest.approx(compare(rows, pairs)[0].high)
    cells = [[number.text.replace("\xa0", " "), *rest] for _, _, number, *rest in table.rows]
    assert cells == [
        ["−3.02 ± 0.24", "< 0.001", 5, "better"],
        ["+3.02 ± 0.24", "< 0.001", 5, "worse"],
        ["+0.02 ± 0.24", "0.83", 5, "within noise"],
        ["−11.40", "not known", 1, "spread not known"],
    ]
    assert [comparison.comparisons for comparison in compare(rows, pairs)] == [3, 3, 3, 3]
    assert comparison_table([]).headers[3] == "p"


def test_accuracies_on_the_same_images_by_hand():
    ours = np.array([[1, 1, 0, 1], [1, 0, 1, 1]], bool)
    theirs = np.array([[1, 0, 0, 1], [1, 0, 0, 0]], bool)
    result = difference_by_seed(dict(enumerate(ours)), dict(enumerate(theirs)))
    assert result.difference == pytest.approx(37.5)
    assert result.seeds_error == pytest.approx(12.5)  # 25 and 50
    assert result.images_error == pytest.approx(np.std([0, 50, 50, 50], ddof=1) / 2)
    assert difference_by_seed({0: ours[0]}, {0: theirs[0]}).seeds_error == 0
    assert difference_by_seed({0: ours[0]}, {1: theirs[0]}) is None  # no seed in common
    assert difference_by_seed({0: ours[0]}, {0: theirs[0, :3]}) is None  # other images
