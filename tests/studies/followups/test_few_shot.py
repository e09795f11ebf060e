"""Few shots of birds in very small: features in memory instead of a data set with its network."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from studies.followups import few_shot
from studies.followups.few_shot import LATE, Birds, few_shots
from studies.followups.measures import few_shot_blocks

CLASSES, IMAGES, SIZE = 24, 22, 6  # six classes of each kind of the split


class Maps(SimpleNamespace):
    """A cache in memory."""

    def select(self, stages):
        return self

    def batch(self, images):
        return {LATE: self.maps[images]}


@pytest.fixture
def birds(monkeypatch):
    """Maps whose channels have the variances of their class: the mean says nothing."""
    labels = np.repeat(np.arange(CLASSES), IMAGES)
    scales = np.random.default_rng(7).uniform(0.2, 3.0, (CLASSES, SIZE))
    maps = np.random.default_rng(0).normal(size=(len(labels), SIZE, 5, 5))
    maps *= scales[labels][:, :, None, None]
    maps -= maps.mean((2, 3), keepdims=True)
    cache = Maps(maps=torch.from_numpy(maps).float(), channels={LATE: SIZE}, files={LATE: "f"})
    found = Birds(cache, torch.from_numpy(labels), CLASSES)
    monkeypatch.setattr(few_shot, "cached_birds", lambda *args: found)
    chosen = {n: few_shot.DESCRIPTIONS[n] for n in ("average", "covariance", "root")}
    monkeypatch.setattr(few_shot, "DESCRIPTIONS", chosen)
    return found


def test_second_order_sees_what_the_average_does_not(birds, tmp_path, monkeypatch):
    place = few_shots("data", tmp_path, episodes=40)
    error = {}
    for row in place.rows:
        error.setdefault((row["method"], row["shots"]), []).append(row["val_error"])
    mean = {key: np.mean(values) for key, values in error.items()}
    assert all(len(values) == 40 for values in error.values())
    for shots in few_shot.SHOTS:
        assert mean["average", shots] > 65  # four fifths, by chance
        assert mean["covariance", shots] < 40
        assert mean["root", shots] < 40
    assert mean["root", 5] < mean["root", 1]
    monkeypatch.setattr(few_shot, "classify", None)  # what is finished is not done again
    assert few_shots("data", tmp_path, episodes=40).rows == place.rows
    (table,) = few_shot_blocks(place)
    assert [row[0] for row in table.rows] == ["average", "covariance", "root"]
    assert table.rows[2][2].value == pytest.approx(100 - mean["root", 1])


def test_too_few(birds, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="episodes must be at least 2, got 1"):
        few_shots("data", tmp_path, episodes=1)
    monkeypatch.setattr(few_shot, "SHOTS", (10,))
    with pytest.raises(ValueError, match="5 classes of 25 images each"):
        few_shots("data", tmp_path, episodes=2)
