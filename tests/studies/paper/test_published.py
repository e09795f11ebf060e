"""The paper's numbers: values and sums read from the paper by eye, and errors in broken files."""

import math

import pytest

from rootpool.nn import METHODS, SVDNewton, SVDPade, SVDTaylor, SVDTopN, SVDTrunc
from studies.paper.published import Cell, load_published, parse_published


@pytest.mark.parametrize(
    ("table", "row", "column", "value"),
    [
        ("condition-number", "MPN-COV", "Epoch 11", 5.36e13),
        ("fgvc", "SVD-TopN", "Dogs final", None),
        ("speed", "SVD-Pade", "Bottleneck", None),
        ("approximation-error", "Taylor", "0.999", 904),
        ("upper-bounds", "SVD-Pade", "Maximal Value", 6e36),
        ("upper-bounds", "SVD", "Maximal Value", math.inf),
        ("taylor-degrees", "200", "0.99", 13),
        ("pade-degrees", "50", "0.999", 1e-12),
    ],
)
def test_values_read_by_eye(table, row, column, value):
    assert load_published().tables[table].cell(row, column).value == value


@pytest.mark.parametrize(
    ("table", "sums"),
    [
        ("alexnet", [339.91, 169.41, 335.38, 164.80, 334.44, 163.95]),
        ("resnet", [271.29, 77.80, 270.25, 76.59]),
        ("fgvc", [520.97, 522.60, 498.34, 504.22, 553.17, 555.65]),
        ("speed", [0, 7.43, 2.91, 10.34]),
        ("warm-up-epochs", [239.25, 117.90, 238.32, 116.75]),
    ],
)
def test_columns_add_up_as_those_of_the_latex(table, sums):
    """Sums taken from the LaTeX of the paper: a slip in any cell changes that of its column."""
    printed = load_published().tables[table]
    found = [math.fsum(r.cells[c].value or 0 for r in printed.rows) for c in printed.columns]
    assert found == pytest.approx(sums, abs=1e-6)


def test_the_methods_have_the_papers_parameters():
    value = load_published().statements
    assert all(
        set(table.methods) <= {*METHODS, "gap"} for table in load_published().tables.values()
    )
    assert SVDTopN().count == value["topn-count"]
    assert SVDTrunc().bound == value["trunc-bound"]
    assert SVDNewton().iterations == value["newton-iterations"]
    assert SVDTaylor().degree == SVDPade().degree == value["degree"]


@pytest.mark.parametrize(
    ("text", "unit"),
    [("22.60", 0.01), ("36", 1.0), ("9e-19", 1e-19), ("3.41e14", 1e12), ("/", None)],
)
def test_units_as_printed(text, unit):
    assert Cell.number(text).unit == (None if unit is None else pytest.approx(unit))


# --------------------------------------------------------------------------------- broken files

GOOD = """
tables:
  a:
    {number: 1, label: l, caption: c, columns: [x, y], words: [y],
     rows: [{name: r, method: exact, cells: [1.0, w]}]}
statements: {s: {value: 1, section: s, text: t}}
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("cells: [1.0, w]", "cells: [1.0]", "row 'r': 1 cells for 2 columns"),
        ("cells: [1.0, w]", "cells: [one, w]", "a cell holds a number.*got 'one'"),
        ("columns: [x, y]", "columns: [y, y]", "a: columns need different names"),
        ("words: [y]", "words: [z]", "words and measures name columns"),
        ("number: 1", "number: 2", r"the tables must be numbered in order from 1, got \[2\]"),
        (
            "rows: [",
            "rows: [{name: r, method: exact, cells: [1, w]}, ",
            "names of rows must differ",
        ),
    ],
)
def test_broken_files(old, new, message):
    assert old in GOOD
    with pytest.raises(ValueError, match=message):
        parse_published(GOOD.replace(old, new))
