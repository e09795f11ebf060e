"""Few shots of birds in very small: features in memory instead of a data set with its network."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from studies.followups import few_shot
from studies.followups.few_shot import LATE, Birds, draw_episodes, few_shots, nearest_mean_answers
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


LABELS = torch.arange(8).repeat(25)[torch.randperm(200, generator=torch.Generator().manual_seed(1))]


def vectors(n=200, d=40, seed=0, spread=1.0):
    generator = torch.Generator().manual_seed(seed)
    means = torch.randn(8, d, generator=generator, dtype=torch.float64)
    x = means[LABELS[:n]] + spread * torch.randn(n, d, generator=generator, dtype=torch.float64) + 3
    return x / x.norm(dim=1, keepdim=True)


@pytest.mark.parametrize("shots", [1, 5])
def test_an_episode_has_no_image_twice_and_as_many_of_each_class(shots):
    episodes = draw_episodes(LABELS, 50, shots=shots)
    assert episodes.support.shape == (50, 5, shots)
    assert episodes.queries.shape == (50, 5, 15)
    for support, queries in zip(episodes.support, episodes.queries, strict=True):
        images = torch.cat([support, queries], 1)
        assert len(images.unique()) == images.numel()
        assert all(len(LABELS[row].unique()) == 1 for row in images)
        assert len(LABELS[images[:, 0]].unique()) == 5
    for seed, same in ((0, True), (1, False)):
        again = draw_episodes(LABELS, 50, shots=shots, seed=seed)
        assert torch.equal(again.queries, episodes.queries) == same


@pytest.mark.parametrize("shots", [1, 3, 5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nearest_means_by_distances(shots, dtype):
    x = vectors()
    episodes = draw_episodes(LABELS, 20, shots=shots)
    answers = nearest_mean_answers((x @ x.mT).to(dtype), episodes)
    for e in range(len(answers)):
        means = x[episodes.support[e]].mean(1)
        expected = torch.cdist(x[episodes.queries[e].flatten()], means).argmin(1)
        assert (answers[e] == expected).double().mean() > (
            0.999 if dtype == torch.float64 else 0.95
        )
