"""Yes needs a significant difference, no needs one to the other side, and everything else is unclear."""

import pytest

from rootpool.analysis.statistics import compare
from rootpool.paper.judge import (
    Answer,
    compare_by_question,
    conclude,
    count,
    is_better,
    is_level,
    together,
)

NOISE = (0.00, 0.03, -0.02, 0.05)


def rows(**means):
    return [
        {"run": run, "seed": seed, "val_error": mean + (seed + 1) * NOISE[seed] * (k + 1)}
        for k, (run, mean) in enumerate(means.items())
        for seed in range(4)
    ]


def pairs(*names, **means):
    return compare(rows(**means), [names])


def test_better_worse_and_unclear():
    assert is_better(pairs("a", "b", a=10, b=12)) is True
    assert is_better(pairs("b", "a", a=10, b=12)) is False
    assert is_better(pairs("a", "b", a=10, b=10.01)) is None
    assert is_better(compare(rows(a=10, b=12)[::4], [("a", "b")])) is None  # one seed


def test_level_is_within_the_margin_not_merely_insignificant():
    assert is_level(pairs("a", "b", a=10, b=10.1)) is True
    assert is_level(pairs("a", "b", a=12, b=10)) is False
    assert is_level(pairs("a", "b", a=10, b=12)) is True  # better is good enough
    assert is_level(pairs("a", "b", a=10, b=12), side="either") is False
    assert is_level(pairs("a", "b", a=10, b=12), side="better") is False
    assert is_level(pairs("a", "b", a=12, b=10), side="better") is True
    same = compare(rows(a=10) + [{**r, "run": "b"} for r in rows(a=10)], [("a", "b")])
    assert is_level(same) is True
    assert is_better(same) is None
    assert "equal to the last image in 1" in count(same)
    wide = [
        {"run": run, "seed": seed, "val_error": value}
        for run, values in {"a": (5, 15, 9), "b": (10, 10, 10)}.items()
        for seed, value in enumerate(values)
    ]
    assert is_level(compare(wide, [("a", "b")])) is None


def test_one_clear_no_decides():
    assert together([True, None, False]) is False
    assert together([True, None]) is None
    assert together([True, True]) is True


def test_a_question_is_corrected_for_its_comparisons_and_missing_runs_left_out():
    data = rows(a=10, b=12, c=14)
    found = compare_by_question(
        data, {"one": [("a", "b"), ("a", "gone")], "two": [("b", "c"), ("a", "c")]}
    )
    assert [(c.run, c.baseline) for c in found["one"]] == [("a", "b")]
    assert found["two"][0].comparisons == 2
    assert found["two"][0].corrected_p >= found["two"][0].difference.p_value
    assert count(found["one"]).startswith(
        "clearly better in 1 of 1 comparisons, clearly worse in 0"
    )


@pytest.mark.parametrize(("second", "shows"), [(True, True), (None, None), (False, False)])
def test_a_claim_is_the_sum_of_its_answers(second, shows):
    answers = [Answer("First.", True), Answer("Second.", second)]
    result = conclude("text:x", "A claim.", answers, [{"a": 1}], {"seeds": 3}, runs=[{"b": 2}])
    assert result.shows is shows
    assert result.verdict == "First. Second."
    assert result.series["answers"][1] == {"text": "Second.", "shows": second}
    assert result.series["runs"] == ({"b": 2},)
