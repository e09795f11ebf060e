from fractions import Fraction

import mpmath
import pytest
import torch

from rootpool.linalg import Ordinary, Pade, Taylor
from studies.paper.approximation import FAMILIES, approximation_errors, kernel_error

RATIOS = ["0", "0.1", "0.5", "0.9", "0.99", "0.999"]
DEGREES = [2, 7, 50, 100]


def test_taylor_has_the_error_of_the_remainder():
    """sum_{k <= K} x^k = (1 - x^(K+1)) / (1 - x), in 60 digits."""
    with mpmath.workdps(60):
        for record in approximation_errors(DEGREES, RATIOS, ["taylor"]):
            x = mpmath.mpf(record["ratio"])
            expected = x ** (record["degree"] + 1) / (1 - x)
            assert record["error"] == pytest.approx(float(expected), rel=1e-14)


def test_pade_has_no_error():
    records = approximation_errors(DEGREES, RATIOS, ["pade"])
    assert all(record["error"] == 0 for record in records)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("ratio", [0.1, 0.3, 0.7, 0.9, 0.99, 0.999, 1 - 2**-20])
def test_the_kernel_is_off_by_rounding_only(ratio, dtype):
    """1 - x and the quotient: two roundings."""
    x = torch.tensor(ratio, dtype=dtype).item()
    for rule in (Pade(), Ordinary()):
        assert kernel_error(rule, ratio, dtype) <= Fraction(torch.finfo(dtype).eps) / Fraction(
            1 - x
        )


def test_the_kernel_of_taylor_is_the_polynomial():
    for record in approximation_errors([50, 100], ["0.9", "0.99", "0.999"], ["taylor"]):
        assert record["kernel_error"] == pytest.approx(record["error"], rel=1e-9)
    assert kernel_error(Taylor(degree=3), 0.5) == Fraction(1, 8)


def test_order_and_families():
    records = approximation_errors([2, 3], ["0.1", "0.5"])
    assert [(r["family"], r["degree"], r["ratio"]) for r in records] == [
        (family, degree, ratio)
        for family in FAMILIES
        for degree in (2, 3)
        for ratio in ("0.1", "0.5")
    ]


@pytest.mark.parametrize("ratio", ["1", "-0.1", "2"])
def test_wrong_ratio(ratio):
    with pytest.raises(ValueError, match=rf"ratio of eigenvalues is in \[0, 1\), got '{ratio}'"):
        approximation_errors([2], [ratio])
