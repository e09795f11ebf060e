"""A verdict needs a significant difference to one side or the other; everything else is inconclusive."""

import pytest

from rootpool.report.statistics import compare
from studies.paper.judge import (
    Answer,
    answer,
    ask,
    comparison_records,
    conclude,
    count,
    is_better,
    is_level,
)
from studies.paper.published import TextClaim
from studies.paper.questions import Question
from studies.paper.result import together

NOISE = (0.00, 0.03, -0.02, 0.05)


def rows(**means):
    return [
        {"run": run, "seed": seed, "val_error": mean + (seed + 1) * NOISE[seed] * (k + 1)}
        for k, (run, mean) in enumerate(means.items())
        for seed in range(4)
    ]


def pairs(*names, **means):
    return compare(rows(**means), [names])


def test_better_worse_and_inconclusive():
    assert is_better(pairs("a", "b", a=10, b=12)) == "supported"
    assert is_better(pairs("b", "a", a=10, b=12)) == "contradicted"
    assert is_better(pairs("a", "b", a=10, b=10.01)) == "inconclusive"
    assert is_better(compare(rows(a=10, b=12)[::4], [("a", "b")])) == "inconclusive"  # one seed


def test_level_is_within_the_margin_not_merely_insignificant():
    assert is_level(pairs("a", "b", a=10, b=10.1)) == "supported"
    assert is_level(pairs("a", "b", a=12, b=10)) == "contradicted"
    assert is_level(pairs("a", "b", a=10, b=12)) == "supported"  # better is good enough
    assert is_level(pairs("a", "b", a=10, b=12), side="either") == "contradicted"
    assert is_level(pairs("a", "b", a=10, b=12), side="better") == "contradicted"
    assert is_level(pairs("a", "b", a=12, b=10), side="better") == "supported"
    same = compare(rows(a=10) + [{**r, "run": "b"} for r in rows(a=10)], [("a", "b")])
    assert is_level(same) == "supported"
    assert is_better(same) == "inconclusive"
    assert "equal to the last image in 1" in count(same)
    wide = [
        {"run": run, "seed": seed, "val_error": value}
        for run, values in {"a": (5, 15, 9), "b": (10, 10, 10)}.items()
        for seed, value in enumerate(values)
    ]
    assert is_level(compare(wide, [("a", "b")])) == "inconclusive"


def test_one_contradiction_decides():
    assert together(["supported", "inconclusive", "contradicted"]) == "contradicted"
    assert together(["supported", "inconclusive"]) == "inconclusive"
    assert together(["supported", "supported"]) == "supported"
    assert together([]) == "inconclusive"


def tagged(**means):
    return [{**row, "method": row["run"], "protocol": "standalone"} for row in rows(**means)]


def source(question):
    return TextClaim("x", "Section", "A claim.", ("a", "b", "c"), (question,))


def test_pairs_are_chosen_by_tags():
    runs = [
        {"run": "one", "method": "a", "warmup": 1},
        {"run": "two", "method": "a", "warmup": 2},
        {"run": "other", "method": "b"},
    ]
    question = Question("", {"warmup": "2"}, ({"warmup": ["1", "3"]}, {"method": "b"}), "better")
    assert question.pairs(runs, lambda name: [name]) == [("two", "one"), ("two", "other")]
    same = Question("", {"warmup": "1"}, ({"method": "same", "warmup": "2"},), "better")
    assert same.pairs(runs, lambda name: [name]) == [("one", "two")]


def test_a_method_that_the_paper_does_not_have_changes_no_verdict():
    """Nor Holm's correction: another run of a method of our own leaves every number as it is."""
    question = Question("a is best.", {"method": "a"}, ({"method": "svd"},), "better")
    one = TextClaim("x", "Section", "A claim.", ("a", "svd-pade", "mpn-cov"), (question,))
    means = {"a": 10, "svd-pade": 12, "mpn-cov": 14}
    without = ask(question, one, tagged(**means))
    with_ours = ask(question, one, tagged(**means, exact=1))
    assert [(c.run, c.baseline) for c in without] == [("a", "svd-pade"), ("a", "mpn-cov")]
    assert with_ours == without
    assert without[0].corrected_p > without[0].difference.p_value
    assert answer(question, without).verdict == "supported"
    records = comparison_records(one, tagged(**means, exact=1))
    assert [r["label"] for r in records if not r["judged"]] == ["a − exact"]


@pytest.mark.parametrize(
    ("judge", "margin", "verdict"),
    [
        ("better", 0, "supported"),
        ("level", 1, "supported"),
        ("same", 1, "contradicted"),
        ("same", 3, "supported"),
        ("gain", 1, "contradicted"),
    ],
)
def test_judges(judge, margin, verdict):
    question = Question("", {"method": "a"}, ({"method": "b"},), judge, margin)
    assert answer(question, ask(question, source(question), tagged(a=10, b=12))).verdict == verdict


@pytest.mark.parametrize("second", ["supported", "inconclusive", "contradicted"])
def test_a_claim_is_the_sum_of_its_answers(second):
    answers = [Answer("First.", "supported"), Answer("Second.", second)]
    question = Question("", {}, ({},), "better")
    result = conclude(source(question), answers, [{"a": 1}], {"seeds": 3}, runs=[{"b": 2}])
    assert result.verdict == second
    assert result.reason == "First. Second."
    assert result.series["answers"][1] == {"text": "Second.", "verdict": second}
    assert result.series["runs"] == ({"b": 2},)
