"""A few cases of the fuzz, and a proof that it can fail."""

import pytest

from rootpool.linalg import sqrtm
from torture import fuzz


@pytest.mark.filterwarnings("ignore")  # torch's own, of deprecations
@pytest.mark.parametrize("number", range(6))
def test_cases_are_right_or_refused(number):
    case, ending = fuzz.examine(0, number)
    assert ending in ("right", "unsure", "refused"), (case, ending)


@pytest.mark.parametrize("second", [None, "double backward"])
def test_a_wrong_derivative_is_found(second, monkeypatch):
    case = fuzz.Case(("sqrtm",), 3, "apart", fuzz.torch.float64, "backward", second)
    monkeypatch.setattr(fuzz, "draw", lambda _: case)
    assert fuzz.examine(0, 0)[1] == "right"
    half = lambda A: (sqrtm(A) + sqrtm(A).detach()) / 2  # noqa: E731
    monkeypatch.setitem(fuzz.ROWS, "sqrtm", fuzz.matrix(half))
    assert fuzz.examine(0, 0)[1].startswith("wrong")
