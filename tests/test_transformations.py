"""The table of functions and transformations: what has a tick works, what has a dash is refused."""

import pytest

from transformations import FUNCTIONS, TRANSFORMATIONS, outcome


@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_under_transformation(name, transformation):
    row = FUNCTIONS[name]
    assert outcome(row, transformation) == (transformation not in row.refuses)
