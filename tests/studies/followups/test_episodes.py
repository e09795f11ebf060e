"""Few-shot classification: what is computed from inner products against what is computed from vectors."""

import pytest
import torch

from studies.followups.episodes import draw_episodes, nearest_mean_answers

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


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (LABELS[LABELS < 4], "5 classes of 16 images each .* there are 4 classes"),
        (torch.arange(8).repeat(10), "the smallest with 10 images"),
        (torch.empty(0, dtype=torch.long), "there are 0 classes"),
    ],
)
def test_too_few_images(labels, message):
    with pytest.raises(ValueError, match=message):
        draw_episodes(labels, 1, shots=1)


@pytest.mark.parametrize("shots", [1, 3, 5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nearest_means_by_distances(shots, dtype):
    x = vectors()
    episodes = draw_episodes(LABELS, 20, shots=shots)
    answers = nearest_mean_answers((x @ x.mT).to(dtype), episodes)
    for e in range(len(episodes)):
        means = x[episodes.support[e]].mean(1)
        expected = torch.cdist(x[episodes.queries[e].flatten()], means).argmin(1)
        assert (answers[e] == expected).double().mean() > (
            0.999 if dtype == torch.float64 else 0.95
        )
