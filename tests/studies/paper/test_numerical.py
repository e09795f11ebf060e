"""The numerical tables: errors against 60 digits, and outcomes that follow from the times."""

import mpmath
import pytest

from studies.engine.kept import Kept
from studies.engine.page import NOWHERE
from studies.paper.command import load_paper
from studies.paper.numerical import _speeds, approximation_error, approximation_errors
from studies.paper.published import load_published

TABLES = load_published().tables
RATIOS = ["0", "0.1", "0.5", "0.9", "0.99", "0.999"]


@pytest.mark.parametrize("degree", [2, 7, 50, 100])
def test_taylor_has_the_error_of_the_remainder(degree):
    """1/(1 - x) - sum_{k <= K} x^k, summed in 60 digits."""
    with mpmath.workdps(60):
        for ratio in RATIOS:
            x = mpmath.mpf(ratio)
            expected = 1 / (1 - x) - mpmath.fsum(x**k for k in range(degree + 1))
            assert approximation_error("svd-taylor", degree, ratio) == pytest.approx(
                float(expected), rel=1e-14, abs=1e-50
            )


def test_pade_as_published_is_off_by_what_others_found():
    """Errors of the released coefficients, evaluated in float64."""
    for ratio, expected in {"0.9": 1.1e-14, "0.99": 9.4e-13, "0.999": 9.6e-10}.items():
        error = approximation_error("svd-pade", 100, ratio)
        assert expected / 30 < error < 3 * expected


def test_a_table_of_errors(tmp_path):
    entry = load_paper().entries["table:taylor-degrees"]
    found = approximation_errors(entry, [], Kept(tmp_path))
    assert {f.outcome for f in found.findings[NOWHERE].values()} == {"seen"}
    assert len(found.blocks[0].rows) == 2 * len(TABLES["taylor-degrees"].rows)


@pytest.mark.parametrize(
    ("method", "part", "seconds", "expected"),
    [
        ("exact", "forward", 1.0, {"forward": "seen", "backward": "seen", "pade": "seen"}),
        (
            "svd-taylor",
            "backward",
            0.6,
            {"forward": "seen", "backward": "not seen", "pade": "seen"},
        ),
        ("svd-pade", "backward", 0.4, {"forward": "seen", "backward": "seen", "pade": "opposite"}),
        ("svd-pade", "backward", 0.3, {"forward": "seen", "backward": "seen", "pade": "not seen"}),
        ("mpn-cov", "forward", 0.2, {"forward": "not seen", "backward": "seen", "pade": "seen"}),
    ],
)
def test_the_outcomes_on_speed_follow_the_times(method, part, seconds, expected):
    """The paper's own times support its claims; each change breaks one."""
    columns = {"forward": "FP (s)", "backward": "BP (s)"}
    times = {
        row.method: {name: row.cells[column].value for name, column in columns.items()}
        for row in TABLES["speed"].rows
    }
    times.setdefault(method, {})[part] = seconds
    kernels = [m for m in TABLES["speed"].methods if m not in ("isqrt-cov", "svd-newton")]
    assert {k: f.outcome for k, f in _speeds(times, kernels).items()} == expected
