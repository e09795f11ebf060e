import numpy as np
import pytest

from rootpool.report import difference_by_seed


def compared(ours, theirs):
    return difference_by_seed(dict(enumerate(ours)), dict(enumerate(theirs)))


def test_error_is_the_spread_over_repeated_experiments():
    """Draw images and seeds anew many times; the stated error is the spread of the differences."""
    generator = np.random.default_rng(0)
    seeds, images, results = 5, 400, []
    for _ in range(400):
        easy = generator.random(images)
        luck = generator.normal(0, 0.03, (2, seeds, 1))
        better = np.array([0.05, 0.0])[:, None, None]
        right = generator.random((2, seeds, images)) < np.clip(easy + better + luck, 0, 1)
        results.append(compared(*right))
    differences = np.array([r.difference for r in results])
    # easy + 0.05 is cut at 1, so a little less than 5 points
    assert differences.mean() == pytest.approx(5, abs=0.5)
    stated = np.sqrt(np.mean([r.error**2 for r in results]))
    assert differences.std() < stated < 1.4 * differences.std()


def test_by_hand():
    ours = np.array([[1, 1, 0, 1], [1, 0, 1, 1]], bool)
    theirs = np.array([[1, 0, 0, 1], [1, 0, 0, 0]], bool)
    result = compared(ours, theirs)
    assert result.difference == pytest.approx(37.5)
    assert result.seeds_error == pytest.approx(12.5)  # 25 and 50
    assert result.images_error == pytest.approx(np.std([0, 50, 50, 50], ddof=1) / 2)
    assert compared(ours[:1], theirs[:1]).seeds_error == 0
    assert difference_by_seed({0: ours[0]}, {1: theirs[0]}) is None  # no seed in common
    assert difference_by_seed({0: ours[0]}, {0: theirs[0, :3]}) is None  # other images
