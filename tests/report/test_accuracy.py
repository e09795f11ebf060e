import numpy as np
import pytest

from rootpool.report.accuracy import accuracy_difference


def test_error_is_the_spread_over_repeated_experiments():
    """Draw images and seeds anew many times; the stated error is the spread of the differences."""
    generator = np.random.default_rng(0)
    seeds, images, results = 5, 400, []
    for _ in range(400):
        easy = generator.random(images)
        luck = generator.normal(0, 0.03, (2, seeds, 1))
        better = np.array([0.05, 0.0])[:, None, None]
        right = generator.random((2, seeds, images)) < np.clip(easy + better + luck, 0, 1)
        results.append(accuracy_difference(*right))
    differences = np.array([r.difference for r in results])
    # easy + 0.05 is cut at 1, so a little less than 5 points
    assert differences.mean() == pytest.approx(5, abs=0.5)
    stated = np.sqrt(np.mean([r.error**2 for r in results]))
    assert differences.std() < stated < 1.4 * differences.std()


def test_by_hand():
    ours = np.array([[1, 1, 0, 1], [1, 0, 1, 1]], bool)
    theirs = np.array([[1, 0, 0, 1], [1, 0, 0, 0]], bool)
    result = accuracy_difference(ours, theirs)
    assert result.difference == pytest.approx(37.5)
    assert result.seeds_error == pytest.approx(12.5)  # 25 and 50
    assert result.images_error == pytest.approx(np.std([0, 50, 50, 50], ddof=1) / 2)
    assert accuracy_difference(ours[:1], theirs[:1]).seeds_error == 0


@pytest.mark.parametrize("shape", [(2, 3), (4,), (0, 4)])
def test_what_cannot_be_compared(shape):
    with pytest.raises(ValueError, match=r"two arrays \(seeds, images\) of the same shape, got"):
        accuracy_difference(
            np.zeros(shape, bool), np.zeros((2, 4) if len(shape) == 2 and shape[0] else shape, bool)
        )
