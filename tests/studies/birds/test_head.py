"""Heads learn what is there to be learned, and nothing else depends on how they were trained."""

import numpy as np
import pytest
import torch

from rootpool.train.features import FeatureCache
from studies.birds.head import Branch, Head, Schedule, predict, train_head

CLASSES, PER_CLASS = 3, 16
SCHEDULE = Schedule(epochs=4, batch_size=8, filter_rate=0.004)


@pytest.fixture(scope="module")
def data():
    """Classes with the same average and other covariances: each has its own pair of equal channels."""
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(CLASSES), PER_CLASS)
    maps = generator.standard_normal((len(labels), 2, 6, 5, 5))
    for k, label in enumerate(labels):
        maps[k, :, 2 * label] = maps[k, :, 2 * label + 1]
    maps -= maps.mean((-2, -1), keepdims=True)
    other = generator.standard_normal((len(labels), 2, 4, 1, 1))
    cache = FeatureCache({"late": [maps.astype(np.float16)], "other": [other.astype(np.float16)]})
    return cache, torch.from_numpy(labels)


def accuracy(head, data, **options):
    cache, labels = data
    module = train_head(head, cache, labels, CLASSES, **options)
    return (predict(module, cache).argmax(1) == labels).float().mean().item()


# One of each kind; all methods are compared with their definitions in the tests of the library.
@pytest.mark.parametrize(
    "method", ["exact", "isqrt-cov", "covariance", "brownian", "learned-power"]
)
def test_second_order_heads_see_what_averages_do_not(data, method):
    assert accuracy(Head((Branch("late", method),), SCHEDULE), data) == 1
    assert accuracy(Head((Branch("late", "gap"),), SCHEDULE), data) < 0.7


def test_the_same_seed_gives_the_same_head(data):
    cache, labels = data
    head = Head((Branch("late", reduction=5), Branch("other", "gap", power=0.5)), SCHEDULE)
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first, second = (train_head(head, cache, labels, CLASSES, seed=1) for _ in range(2))
    assert torch.equal(torch.random.get_rng_state(), before)
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)
    other = train_head(head, cache, labels, CLASSES, seed=2)
    assert not torch.equal(other[1].weight, first[1].weight)


def test_dropped_channels_follow_the_seed_and_are_there_in_training_alone(data):
    cache, labels = data
    head = Head((Branch("late", "covariance", 5, drop="adaptive"),), SCHEDULE)
    before = torch.random.get_rng_state()
    first, second, other = (
        train_head(head, cache, labels, CLASSES, seed=seed) for seed in (1, 1, 2)
    )
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(first[1].weight, second[1].weight)
    assert not torch.equal(first[1].weight, other[1].weight)
    assert torch.equal(predict(first, cache), predict(first, cache))
    assert "pools.0.channel_dropout.convolution.weight" in first[0].state_dict()


def test_only_the_chosen_images_are_seen(data):
    cache, labels = data
    changed = labels.clone()
    changed[::2] = 0  # of images that are not trained on
    images = torch.arange(1, len(labels), 2)
    head = Head((Branch("late"),), SCHEDULE)
    a = train_head(head, cache, labels, CLASSES, images=images)
    b = train_head(head, cache, changed, CLASSES, images=images)
    assert torch.equal(a[1].weight, b[1].weight)
    # To within rounding: the images have other neighbours in the batch.
    assert torch.allclose(predict(a, cache, images), predict(a, cache)[images], atol=1e-5)


def test_probabilities_are_means_over_views(data):
    cache, labels = data
    module = train_head(Head((Branch("late"),), SCHEDULE), cache, labels, CLASSES)
    maps = cache.blocks["late"][0].astype(np.float32)
    with torch.no_grad():
        one, two = (module({"late": torch.from_numpy(maps[:, v])}).softmax(1) for v in (0, 1))
    assert torch.allclose(predict(module, cache), (one + two) / 2, atol=1e-6)
    assert not torch.allclose(one, two, atol=1e-3)


def test_both_rates_are_used_and_fall_to_zero(data):
    cache, labels = data
    losses = []
    head = Head((Branch("late", reduction=5),), Schedule(epochs=3, batch_size=8))
    train_head(
        head, cache, labels, CLASSES, on_epoch=lambda epoch, loss: losses.append((epoch, loss))
    )
    assert [epoch for epoch, _ in losses] == [0, 1, 2]
    assert losses[-1][1] < losses[0][1]

    def trained(**rates):
        schedule = Schedule(epochs=1, batch_size=8, weight_decay=0, **rates)
        return train_head(Head((Branch("late", reduction=5),), schedule), cache, labels, CLASSES)

    still = trained(reduction_rate=0)
    fresh = trained(reduction_rate=0, classifier_rate=0)
    weight = [module[0].pools[0].reduction[0].weight for module in (still, fresh)]
    assert torch.equal(*weight)
    assert (fresh[1].weight == 0).all()
    assert (still[1].weight != 0).any()


def test_wrong_input(data):
    cache, labels = data
    with pytest.raises(ValueError, match="a label for each of 48 images, got 47"):
        train_head(Head((Branch("late"),)), cache, labels[1:], CLASSES)
    with pytest.raises(KeyError, match="no stage 'early'; it has late, other"):
        train_head(Head((Branch("early"),)), cache, labels, CLASSES)


@pytest.mark.parametrize("method", ["isqrt-cov", "gap"])
def test_a_loss_that_is_not_finite_is_an_error(data, method):
    cache, labels = data
    absurd = Schedule(epochs=4, batch_size=8, reduction_rate=3e19, classifier_rate=1e30)
    head = Head((Branch("late", method, reduction=4),), absurd)
    with pytest.raises(
        FloatingPointError, match=r"became (nan|inf) in epoch \d with seed 0; .*3e\+19"
    ):
        train_head(head, cache, labels, CLASSES)
