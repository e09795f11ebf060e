import numpy as np
import pytest
from rich.console import Console

from studies.birds.head import Branch, Head
from studies.birds.study import HeadResult
from studies.birds.summary import (
    Confusion,
    confusions,
    for_terminal,
    records,
    results_table,
    summary,
)

LABELS = np.array([0, 1, 2, 2])
NAMES = ("wren", "crow", "gull")


def result(head, seed, first):
    classes = np.array([[k, (k + 1) % 3] for k in first])
    probabilities = np.tile(np.float32([0.7, 0.2]), (4, 1))
    return HeadResult(head, seed, 10.0 + seed, 0.5, classes, probabilities, LABELS)


RESULTS = [
    result("average", 0, [0, 2, 1, 1]),
    result("root", 0, [0, 1, 2, 1]),
    result("average", 1, [0, 2, 2, 1]),
    result("root", 1, [0, 1, 2, 2]),
]


def test_records():
    rows = records(RESULTS)
    assert rows[1] == {
        "run": "root",
        "seed": 0,
        "accuracy": 75.0,
        "accuracy5": 100.0,
        "loss": 0.5,
        "seconds": 10.0,
    }


def test_summary_compares_with_the_first_head():
    average, root = summary(RESULTS)
    assert (average.head, average.accuracies) == ("average", (25.0, 50.0))
    assert average.difference is None
    assert root.mean == 87.5
    assert root.spread == pytest.approx(12.5 * 2**0.5)
    assert root.difference.difference == 50
    assert root.seconds == 10.5
    assert summary(RESULTS[:2])[0].spread is None


def test_summary_of_a_study_that_is_going_on():
    """Heads are compared over the seeds that both have."""
    _, root = summary(RESULTS[:2] + RESULTS[3:])
    assert root.difference.difference == 50
    assert summary([]) == []


def test_one_table_for_pages_and_terminals():
    heads = {
        "average": Head((Branch("late", "gap"),)),
        "root": Head((Branch("late", "exact", 96),)),
    }
    table = results_table(heads, RESULTS, "birds")
    console = Console(width=160)
    with console.capture() as capture:
        console.print(for_terminal(table))
    text = capture.get().replace("\N{NO-BREAK SPACE}", " ")
    assert "birds" in text
    assert "37.50 ± 17.68" in text
    assert "+50.00 ± " in text
    assert "late, 1x1 to 96, exact, length 4" in text
    assert results_table(heads, []).rows == []


def test_confusions_are_means_over_seeds():
    found = confusions([RESULTS[0], RESULTS[2]], NAMES)
    assert found[0] == Confusion("gull", "crow", 1.5, 2)
    assert found[1] == Confusion("crow", "gull", 1.0, 1)
    assert len(found) == 2
