import random
from statistics import fmean

import pytest

from rootpool.report.statistics import PairedDifference, paired_difference
from studies.statistics import pooled_difference


def test_pooled_differences_by_simulation():
    """Studies of different precision, again and again: how often does the interval hold the truth?"""
    draw = random.Random(0)
    studies = ((12, 0.35), (12, 0.6), (5, 0.8))
    held, errors = 0, []
    for _ in range(400):
        found = []
        for n, spread in studies:
            a = [0.2 + draw.gauss(0, spread) for _ in range(n)]
            found.append(paired_difference(a, [0.0] * n))
        pooled = pooled_difference(found)
        held += pooled.low <= 0.2 <= pooled.high
        errors.append((pooled.mean - 0.2) ** 2)
    assert 0.93 <= held / 400 <= 0.97
    assert fmean(errors) == pytest.approx(sum(n * s**2 for n, s in studies) / 29**2, rel=0.2)
    assert pooled.n == 29
    assert pooled_difference([PairedDifference(1.0, None, None, None, 1)]) is None
