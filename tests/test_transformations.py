"""The table of functions and transformations: what has a tick works, what has a dash is refused."""

import pytest

from transformations import COMPILED, COMPILED_PAIRS, FUNCTIONS, PAIRS, TRANSFORMATIONS, outcome

CELLS = [(name, column) for name in FUNCTIONS for column in (*TRANSFORMATIONS, *PAIRS)]
CELLS += [(name, column) for name in COMPILED for column in COMPILED_PAIRS]


@pytest.mark.parametrize(
    ("name", "transformation"),
    [
        pytest.param(*cell, marks=[pytest.mark.slow] * cell[1].startswith("compile"))
        for cell in CELLS
    ],
)
def test_function_under_transformation(name, transformation):
    row = FUNCTIONS[name]
    assert outcome(row, transformation) == (row.refusal(transformation) is None)
