"""The numerical tables: every cell next to the printed one, and verdicts that follow from the cells."""

import pytest

from studies.paper.numerical import (
    _speed_verdict,
    at_or_below,
    measure_approximation_errors,
    measure_speed,
)
from studies.paper.plan import OURS
from studies.paper.published import Cell, load_published

EPS = 2.0**-52
TABLES = load_published().tables
ERRORS = ("approximation-error", "taylor-degrees", "pade-degrees")


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_at_or_below_the_papers_in_every_cell(name):
    table = TABLES[name]
    result = measure_approximation_errors(table)
    assert result.entry == table.entry
    assert len(result.records) == len(table.rows) * len(table.columns)
    for record in result.records:
        cell = table.cell(record["row"], record["column"])
        assert record["published"] == cell.value
        assert record["measured"] < cell.value + cell.unit, record
        x, degree = float(record["column"]), record["degree"]
        expected = 0.0 if record["family"] == "pade" else x ** (degree + 1) / (1 - x)
        assert record["measured"] == pytest.approx(expected, rel=1e-11)
        if record["family"] == "pade":  # two roundings
            assert record["measured_float64"] <= EPS / (1 - x)
    assert result.verdict == "supported"


def test_at_or_below_knows_the_printed_digits():
    assert at_or_below(0.0, Cell.number("9e-19"))
    assert at_or_below(1.9e-18, Cell.number("1e-18"))
    assert not at_or_below(2.1e-18, Cell.number("1e-18"))
    assert not at_or_below(0.0, Cell.number("/"))


def test_speed_of_a_single_map():
    table = TABLES["speed"]
    result = measure_speed(table, batch=1, rounds=1)
    assert result.settings["shape"] == "1x256x13x13"
    printed = {(r["method"], r["column"]): r["published"] for r in result.records}
    assert {method for method, _ in printed} == {*table.trained, *OURS}
    assert printed["isqrt-cov", "BP (s)"] == 0.53
    assert printed["exact", "Total (s)"] is None
    seconds = {(r["method"], r["column"]): r["measured"] for r in result.records}
    for method in (*table.trained, *OURS):
        total = seconds[method, "FP (s)"] + seconds[method, "BP (s)"]
        assert seconds[method, "Total (s)"] == pytest.approx(total)
    assert "scaled up from a batch of 1." in result.reason


def times(**changed):
    """The paper's own times, and one for ours."""
    record = {"forward": 0.1, "backward": 0.1, "total": 0.2, "device": "a machine", "batch": 128}
    table = TABLES["speed"]
    parts = ("forward", "backward", "total")
    found = {
        row.method: {part: cell.value for part, cell in zip(parts, row.cells[1:], strict=True)}
        for row in table.rows
    }
    found |= {"exact": record}
    for method, part in changed.items():
        found[method.replace("_", "-")] |= part
    return found


def test_the_verdict_on_speed_follows_the_times():
    svd = TABLES["speed"].members("svd")
    verdict, reason = _speed_verdict(times(), svd, 1.0)
    assert verdict == "supported"
    assert "The forward takes longer" in reason
    assert "takes 0.20 s, 3.8 times less than iSQRT-COV (0.76 s), on a machine." in reason
    for changed, words in (
        ({"svd_taylor": {"backward": 0.6}}, "their backward is not faster"),
        ({"svd_pade": {"backward": 0.33}}, "SVD-Pade is not faster"),
        ({"mpn_cov": {"forward": 0.2}}, "The forward does not take longer"),
    ):
        verdict, reason = _speed_verdict(times(**changed), svd, 1.0)
        assert verdict == "contradicted"
        assert words in reason
