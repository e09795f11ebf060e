"""A slice of the torture run for every day: each kind, dtype and check, at small sizes."""

import pytest

from torture.corpus import DTYPES, FEATURES, GROUP, MATRICES, Group, parse_case
from torture.runner import run_group

# Where the sizes stand in their tables: 3 x 3 matrices, and maps of 5 channels and 3 positions.
SLICE = {"matrix": 2, "features": 2}
KINDS = [("matrix", kind) for kind in MATRICES] + [("features", kind) for kind in FEATURES]


def failures(findings):
    return [
        f"{f.case}, {f.check}, {f.measure}: {f.figure:.3g} {f.message}"
        for f in findings
        if f.failed
    ]


@pytest.mark.parametrize(("family", "kind"), KINDS)
def test_slice(family, kind):
    for dtype in DTYPES:
        first = SLICE[family] * GROUP
        seeds = (first, first + 1, first + 3, first + 7, first + 8, first + 9, first + 15)
        findings = list(run_group(Group(family, kind, dtype, seeds)))
        assert len({f.check for f in findings}) > 20
        assert failures(findings) == []


def test_a_wrong_result_is_found(monkeypatch):
    """The checks can fail: a root that is off by a millionth, a gradient that is off by as much."""
    from rootpool.linalg import sqrtm
    from torture import linalg_checks, runner

    def wrong(A):
        root = sqrtm(A)
        return root + 1e-6 * root.detach().abs().amax((-2, -1), keepdim=True)

    def wrong_gradient(A):
        root = sqrtm(A)
        return root.detach() + (root - root.detach()) * (1 + 1e-6)

    group = Group("matrix", "separated", DTYPES[0], (32, 34))
    for function, measure in ((wrong, "|F^2 - A^1|"), (wrong_gradient, "|dF^2[Y] - dA^1[S]|")):
        check = linalg_checks.power_check(linalg_checks.one(function), 1, 2)
        monkeypatch.setitem(
            runner.FAMILY_CHECKS, "matrix", (linalg_checks.matrix_batch, {"x": check})
        )
        assert measure in {f.measure for f in run_group(group) if f.failed}


def test_cases_are_made_from_their_names():
    group = Group("matrix", "clustered", DTYPES[1], tuple(range(64, 80)))
    again = parse_case(group.name(5))
    assert (again.batch[0] == group.batch[5]).all()
    with pytest.raises(ValueError, match="no case 'matrix/none/float32/1': families are matrix"):
        parse_case("matrix/none/float32/1")
