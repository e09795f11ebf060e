"""The table of functions and transformations: what has a tick works, what has a dash is refused."""

import pytest

from transformations import FUNCTIONS, REFUSALS, TRANSFORMATIONS


@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_under_transformation(name, transformation):
    row, check = FUNCTIONS[name], TRANSFORMATIONS[transformation]
    if transformation not in row.refuses:
        check(row)
        return
    with pytest.raises(REFUSALS):
        check(row)
