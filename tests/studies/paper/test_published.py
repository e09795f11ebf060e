"""The paper's numbers: values and sums read from the paper by eye."""

import math

import pytest

from rootpool.nn import METHODS
from studies.paper.published import load_published


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
    assert set(printed.methods) <= {*METHODS, "gap"}
