"""The training module: learning rates, records of epochs, and what is built from settings."""

import pytest
import torch

from rootpool.train import ModelSettings, merge
from rootpool.train.module import PooledTraining
from small_runs import NUMBERED, final, run


@pytest.mark.parametrize(("given", "expected"), [(None, 0.1), (0.0, 0.0), (0.02, 0.02)])
def test_the_backbone_has_its_own_learning_rate(given, expected):
    module = PooledTraining(ModelSettings(lr=0.1, backbone_lr=given), num_classes=3)
    groups = module.configure_optimizers()["optimizer"].param_groups
    rates = {group["name"]: group["lr"] for group in groups}
    assert rates == {"backbone": expected, "classifier": 0.1}


def test_a_new_reduction_may_learn_faster_than_the_backbone():
    module = PooledTraining(
        ModelSettings("test_resnet", reduction=8, lr=0.1, backbone_lr=0.01, pool_lr=0.05)
    )
    groups = module.configure_optimizers()["optimizer"].param_groups
    rates = {group["name"]: group["lr"] for group in groups}
    assert rates == {"backbone": 0.01, "pool": 0.05, "classifier": 0.1}


@pytest.mark.parametrize("method", ["exact", "gap"])
def test_pooled_vectors_of_one_length(method):
    module = PooledTraining(ModelSettings(method=method, length=3.0), num_classes=3).eval()
    vectors = module.model.pool(torch.randn(4, 64, 7, 7))
    assert vectors.norm(dim=1).tolist() == pytest.approx([3.0] * 4)
    # The whole configuration is in the checkpoint.
    assert (
        PooledTraining.from_options(module.hparams).model.pool.scaling == module.model.pool.scaling
    )


def test_channels_last_changes_memory_and_not_the_network():
    images = torch.randn(3, 3, 64, 64, dtype=torch.float64)
    labels, found = torch.tensor([0, 1, 2]), []
    for last in (False, True):
        torch.manual_seed(0)
        module = PooledTraining(ModelSettings("resnet18", channels_last=last), num_classes=3)
        module = module.eval().double()
        convolution = module.model.backbone.body.conv1.weight
        assert convolution.is_contiguous(memory_format=torch.channels_last) == last
        loss, logits, _ = module.loss(images, labels)
        loss.backward()
        found.append((logits, convolution.grad))
    for plain, other in zip(*found, strict=True):
        torch.testing.assert_close(plain, other)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trainer", "validated"),
    [
        ({"limit_val_batches": 0, "max_epochs": 1}, [False]),
        ({"check_val_every_n_epoch": 2, "max_epochs": 3}, [False, True, False]),
        ({"max_steps": 3}, [False]),
    ],
)
def test_records_of_epochs(trainer, validated, tmp_path):
    """An epoch without validation has no validation error; the learning rate is that of the epoch."""
    parts = {"trainer": trainer, "model": {"lr": 0.08, "milestones": [1, 2]}}
    run(tmp_path, config=merge(NUMBERED, parts))
    history = final(tmp_path)["history"]
    assert [("val_error" in record) for record in history] == validated
    assert all("train_loss" in record for record in history)
    rates = [0.08, 0.008, 0.0008][: len(history)]
    assert [record["lr"] for record in history] == pytest.approx(rates)
