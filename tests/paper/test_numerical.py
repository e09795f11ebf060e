"""The numerical tables: every cell next to the printed one, and verdicts that follow from the cells."""

import math

import pytest
import torch

from rootpool.nn import method_names
from rootpool.paper.numerical import NUMERICAL, _speed_verdict, at_or_below
from rootpool.paper.published import Cell, load_published

EPS = 2.0**-52
ERRORS = {"table:approximation-error": 14, "table:taylor-degrees": 28, "table:pade-degrees": 28}
BOUNDS = ("table:upper-bounds", "table:upper-bounds-appendix")


def test_every_numerical_table_has_an_entry():
    tables = {t.entry for t in load_published().tables.values()}
    assert set(NUMERICAL) == {*ERRORS, *BOUNDS, "table:speed"}
    assert set(NUMERICAL) < tables


@pytest.mark.parametrize(("entry", "cells"), ERRORS.items())
def test_errors_are_at_or_below_the_papers_in_every_cell(entry, cells):
    result = NUMERICAL[entry]()
    assert result.entry == entry
    assert len(result.records) == cells
    table = load_published().tables[entry.removeprefix("table:")]
    for record in result.records:
        cell = table.cell(record["row"], record["column"])
        assert record["published"] == cell.value
        assert record["measured"] < cell.value + cell.unit, record
        assert record["at_or_below"] is True
    assert result.shows
    assert f"in {cells} of {cells} cells" in result.verdict


def test_taylor_is_the_remainder_and_pade_is_exact():
    for entry in ERRORS:
        for record in NUMERICAL[entry]().records:
            x, degree = float(record["column"]), record["degree"]
            expected = 0.0 if record["family"] == "pade" else x ** (degree + 1) / (1 - x)
            assert record["measured"] == pytest.approx(expected, rel=1e-11)
            if record["family"] == "pade":  # two roundings
                assert record["measured_float64"] <= EPS / (1 - x)


def test_at_or_below_knows_the_printed_digits():
    assert at_or_below(0.0, Cell.number("9e-19"))
    assert at_or_below(1.9e-18, Cell.number("1e-18"))
    assert not at_or_below(2.1e-18, Cell.number("1e-18"))
    assert not at_or_below(0.0, Cell.number("/"))


@pytest.mark.parametrize("entry", BOUNDS)
def test_bounds(entry):
    result = NUMERICAL[entry]()
    rows = {r["row"]: r for r in result.records}
    assert list(rows) == ["SVD-Pade", "SVD-Taylor", "SVD-Trunc", "SVD-TopN", "SVD-Newton", "SVD"]
    for record in result.records:
        assert record["measured"] == pytest.approx(record["by_formula"])
    for name in ("SVD-Taylor", "SVD-Trunc"):  # measured and printed are the same three digits
        assert f"{rows[name]['measured']:.2e}" == f"{rows[name]['published']:.2e}"
    assert f"{rows['SVD-TopN']['paper_formula']:.2e}" == f"{rows['SVD-TopN']['published']:.2e}"
    assert rows["SVD-TopN"]["measured"] > 1e15 * rows["SVD-TopN"]["published"]
    assert rows["SVD-Pade"]["paper_formula"] == rows["SVD"]["paper_formula"] == math.inf
    assert rows["SVD-Pade"]["measured"] == 2.0**104 < torch.finfo(torch.float32).max
    assert result.shows
    assert "The bounds of SVD-Taylor and SVD-Trunc are as printed" in result.verdict
    assert "6.48e+20 / eps, from which the text derives it, is 2.92e+36" in result.verdict


def test_speed_of_a_single_map():
    result = NUMERICAL["table:speed"](batch=1, rounds=1)
    assert len(result.records) == 3 * len(method_names("ours", "paper"))
    assert result.settings["shape"] == "1x256x13x13"
    printed = {(r["method"], r["column"]): r["published"] for r in result.records}
    assert printed["isqrt-cov", "BP (s)"] == 0.53
    assert printed["exact", "Total (s)"] is None
    assert sum(value is not None for value in printed.values()) == 7 * 3
    seconds = {(r["method"], r["column"]): r["measured"] for r in result.records}
    for method in method_names("ours", "paper"):
        total = seconds[method, "FP (s)"] + seconds[method, "BP (s)"]
        assert seconds[method, "Total (s)"] == pytest.approx(total)
        assert total > 128 * 1e-4  # scaled to the batch of the paper; no map takes 0.1 ms
    assert "scaled up from a batch of 1." in result.verdict


def times(**changed):
    """The paper's own times, and one for ours."""
    record = {"forward": 0.1, "backward": 0.1, "total": 0.2, "device": "a machine", "batch": 128}
    table = load_published().tables["speed"]
    parts = ("forward", "backward", "total")
    found = {
        row.method: {part: cell.value for part, cell in zip(parts, row.cells[1:], strict=True)}
        for row in table.rows
    }
    found |= {"exact": record, "svd-pi": record}
    for method, part in changed.items():
        found[method.replace("_", "-")] |= part
    return found


def test_the_verdict_on_speed_follows_the_times():
    shows, verdict = _speed_verdict(times(), 1.0)
    assert shows
    assert "The forward takes longer" in verdict
    assert "takes 0.20 s, 3.8 times less than iSQRT-COV (0.76 s), on a machine." in verdict
    for changed, words in (
        ({"svd_taylor": {"backward": 0.6}}, "their backward is not faster"),
        ({"svd_pade": {"backward": 0.33}}, "SVD-Pade is not faster"),
        ({"mpn_cov": {"forward": 0.2}}, "The forward does not take longer"),
    ):
        shows, verdict = _speed_verdict(times(**changed), 1.0)
        assert not shows
        assert words in verdict
