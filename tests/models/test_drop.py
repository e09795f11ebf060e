"""Dropout of channels before a covariance, by name."""

import pytest
import torch

import matrices
from rootpool.models import create_model
from rootpool.nn import AdaptiveChannelDropout, make_pool


def test_it_is_before_the_covariance_and_drops_in_training_alone():
    torch.manual_seed(0)
    model = create_model("patchnet", "covariance", 3, channel_dropout="adaptive")
    assert isinstance(model.pool.channel_dropout, AdaptiveChannelDropout)
    # Channels with a small sum: where all agree, as at the start of a training, the rate is 0.
    features = matrices.random(4, 64, 7, 7).float()
    features = features - 0.8 * features.mean(1, keepdim=True)
    assert not torch.equal(model.pool(features), model.pool(features))
    assert torch.equal(model.eval().pool(features), model.pool(features))
    options = {"tokens": "class+patches", "channel_dropout": "adaptive"}
    both = create_model("patchnet", "covariance", 3, **options)
    assert sum(isinstance(m, AdaptiveChannelDropout) for m in both.modules()) == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: make_pool(8, channel_dropout="some"),
            "channel_dropout must be adaptive or None, got",
        ),
        (
            lambda: make_pool(8, "gap", channel_dropout="adaptive"),
            "before a covariance, and gap has none",
        ),
        (
            lambda: create_model("paper/alexnet", "gap", channel_dropout="adaptive"),
            "original pooling of this network has no channel_dropout; leave it out",
        ),
        (
            lambda: create_model("patchnet", make_pool(64), channel_dropout="adaptive"),
            "channel_dropout is for pools given by name",
        ),
    ],
)
def test_where_it_cannot_be(make, message):
    with pytest.raises(ValueError, match=message):
        make()
