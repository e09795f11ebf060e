"""Answers from rows: every judge on both sides of its margin, failures apart, and words with their scale."""

import pytest

from rootpool.report import paired_difference
from studies.engine.questions import Answer, answer, pairs, tells
from studies.engine.study import Part

NOISE = (0.0, 0.1, -0.1, 0.05, -0.05, 0.02)


def rows(run, error, noise=1.0, failed=(), **tags):
    """Six seeds; what the seed brings is shared by all runs."""
    return [
        {
            "run": run,
            "method": run,
            "seed": seed,
            "val_error": 20.0 + 3 * seed + error + noise * wobble,
            "failed": seed in failed,
            **tags,
        }
        for seed, wobble in enumerate(NOISE)
    ]


def asked(judge, margin=0.0, effect=None, **options):
    return Part(
        "It is so.",
        judge,
        {"method": "a"},
        [{"method": "b"}],
        margin=margin,
        effect=effect,
        **options,
    )


def outcome(part, *found):
    return answer(part, [row for own in found for row in own], {}, {}).outcome


@pytest.mark.parametrize(
    ("judge", "margin", "difference", "noise", "expected"),
    [
        ("better", 0, -1.0, 1.0, "seen"),
        ("better", 0, +1.0, 1.0, "opposite"),
        ("better", 0, -0.01, 1.0, "not seen"),
        ("level", 1, +0.5, 1.0, "seen"),
        ("level", 1, -9.0, 1.0, "seen"),
        ("level", 1, +9.0, 1.0, "opposite"),
        ("same", 1, -9.0, 1.0, "opposite"),
        ("same", 1, +0.5, 1.0, "seen"),
        ("gain", 1, -9.0, 1.0, "opposite"),
        ("gain", 1, +9.0, 1.0, "seen"),
        # The difference is clear and its mean beyond the margin, but its interval is not.
        ("same", 1, +1.05, 5.0, "not seen"),
        # The interval is wider than the margin, so that no seed could have shown it.
        ("same", 0.1, +0.3, 5.0, "not testable"),
    ],
)
def test_judges(judge, margin, difference, noise, expected):
    part = asked(judge, margin)
    assert outcome(part, rows("a", difference, noise), rows("b", 0.0, 0.0)) == expected


def test_what_the_seeds_cannot_tell_is_not_testable():
    found = rows("a", -0.02, 5.0), rows("b", 0.0, 0.0)
    assert outcome(asked("better", effect=0.1), *found) == "not testable"
    assert outcome(asked("better", effect=5.0), *found) == "not seen"
    assert "the seeds can tell differences of" in tells([paired_difference([1, 2, 4], [0, 0, 0])])
    assert tells([paired_difference([1.0], [0.0])]) is None


def test_one_opposite_comparison_is_not_outvoted_and_all_must_be_seen():
    part = Part("q.", "better", {"method": "a"}, [{"method": ["b", "c"]}])
    a, b = rows("a", -1.0), rows("b", 0.0, 0.0)
    for error, expected in ((-0.01, "seen"), (-0.99, "not seen"), (-3.0, "opposite")):
        assert outcome(part, a, b, rows("c", error, 0.0)) == expected


def test_failed_runs_are_left_out_of_differences():
    broken = rows("a", -1.0)
    broken[2] |= {"val_error": 90.0, "failed": True}
    got = answer(asked("better"), [*broken, *rows("b", 0.0, 0.0)], {}, {})
    assert got.outcome == "seen"
    assert got.comparisons[0].n == 5
    nothing = answer(asked("better"), [*rows("a", 0, failed=range(6)), *rows("b", 0)], {}, {})
    assert nothing.outcome == "not testable"
    assert "no seed has converged on both sides" in nothing.said


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [((0, 1, 2, 3, 4, 5), (), "seen"), ((0, 1), (), "not seen"), ((), (0, 1, 2, 3, 4), "opposite")],
)
def test_failures_are_tested_exactly(first, second, expected):
    """Of 6 and 6: 6 against 0 has p = 1 / 924, 2 against 0 has 15 / 66, 5 against 0 has 6 / 792."""
    found = [*rows("a", 0, failed=first), *rows("b", 0, failed=second)]
    got = answer(asked("fails"), found, {}, {})
    assert got.outcome == expected
    assert f"{len(first)} of 6 runs of a fail, and {len(second)} of 6 of b" in got.said


def test_which_runs_are_compared():
    found = [
        {"run": f"{m}, {p}", "method": m, "protocol": p, "k": k}
        for m, k in (("a", 1), ("b", 2), ("c", None))
        for p in ("one", "two")
    ]
    groups = {"both": ["a", "b"]}
    part = Part(
        "q.",
        "better",
        {"method": "both", "protocol": "two"},
        [{"method": "same", "protocol": "one"}],
    )
    assert pairs(part, found, groups) == [("a, two", "a, one"), ("b, two", "b, one")]
    part = Part(
        "q.", "better", {"k": [1, 2], "protocol": "one"}, [{"method": "both", "protocol": "one"}]
    )
    assert pairs(part, found, groups) == [("a, one", "b, one"), ("b, one", "a, one")]
    part = Part("q.", "better", {"method": "c"}, [{"k": "same"}])
    assert pairs(part, found, groups) == [("c, one", "c, two"), ("c, two", "c, one")]


@pytest.mark.parametrize(
    ("scale", "outcome", "state", "tone"),
    [
        ("argument", "seen", "follows by argument", "yes"),
        ("full size", "opposite", "not reproduced at full size", "no"),
        ("small scale", "seen", "seen at small scale", "yes"),
        ("small scale", "opposite", "opposite at small scale", "no"),
        ("small scale", "not testable", "not testable at our scale", "unclear"),
        ("this CPU", "not seen", "not seen on this CPU", "unclear"),
        ("full size", "not tried", "not tried", "plain"),
    ],
)
def test_words(scale, outcome, state, tone):
    got = Answer(Part("q.", measured="x", scale=scale), outcome)
    assert (got.state, got.tone) == (state, tone)
