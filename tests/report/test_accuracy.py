import numpy as np
import pytest

from rootpool.report import difference_by_seed


def compared(ours, theirs):
    return difference_by_seed(dict(enumerate(ours)), dict(enumerate(theirs)))


def test_by_hand():
    ours = np.array([[1, 1, 0, 1], [1, 0, 1, 1]], bool)
    theirs = np.array([[1, 0, 0, 1], [1, 0, 0, 0]], bool)
    result = compared(ours, theirs)
    assert result.difference == pytest.approx(37.5)
    assert result.seeds_error == pytest.approx(12.5)  # 25 and 50
    assert result.images_error == pytest.approx(np.std([0, 50, 50, 50], ddof=1) / 2)
    assert result.error == pytest.approx((12.5**2 + result.images_error**2) ** 0.5)
    assert compared(ours[:1], theirs[:1]).seeds_error == 0
    assert difference_by_seed({0: ours[0]}, {1: theirs[0]}) is None  # no seed in common
    assert difference_by_seed({0: ours[0]}, {0: theirs[0, :3]}) is None  # other images
