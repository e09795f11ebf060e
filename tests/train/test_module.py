"""The training module: learning rates, records of epochs, and what is built from settings."""

import pytest
import torch

from rootpool.train import ModelSettings, SettingsError, merge
from rootpool.train.module import TRAIN, VAL, PooledTraining, rebuild
from small_runs import NUMBERED, final, run


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"backbone_lr": None}, {"backbone": 0.1, "classifier": 0.1}),
        ({"backbone_lr": 0.0}, {"backbone": 0.0, "classifier": 0.1}),
        (
            {"reduction": 8, "backbone_lr": 0.01, "pool_lr": 0.05},
            {"backbone": 0.01, "pool": 0.05, "classifier": 0.1},
        ),
    ],
)
def test_parts_have_learning_rates_of_their_own(options, expected):
    module = PooledTraining(ModelSettings("test_resnet", lr=0.1, **options), num_classes=3)
    groups = module.configure_optimizers()["optimizer"].param_groups
    assert {group["name"]: group["lr"] for group in groups} == expected


@pytest.mark.parametrize("method", ["exact", "gap"])
def test_pooled_vectors_of_one_length(method):
    settings = ModelSettings(method=method, length=3.0, backbone_options={"norm": False})
    module = PooledTraining(settings, num_classes=3).eval()
    vectors = module.model.pool(torch.randn(4, 64, 7, 7))
    assert vectors.norm(dim=1).tolist() == pytest.approx([3.0] * 4)
    # The whole configuration is in the checkpoint.
    state = {
        "state_dict": module.state_dict(),
        "method": method,
        "hyper_parameters": module.hparams,
    }
    assert rebuild(state).settings == settings


def test_what_cannot_be_built():
    with pytest.raises(SettingsError, match="a classifier needs two classes or more, got 1"):
        PooledTraining(ModelSettings(), num_classes=1)
    with pytest.raises((TypeError, ValueError), match="bound"):
        PooledTraining(ModelSettings(method="svd-trunc", method_options={"bond": 1}))


def test_channels_last_changes_memory_and_not_the_network():
    images = torch.randn(3, 3, 32, 32, dtype=torch.float64)
    labels, found = torch.tensor([0, 1, 2]), []
    for last in (False, True):
        torch.manual_seed(0)
        module = PooledTraining(ModelSettings("test_resnet", channels_last=last), num_classes=3)
        module = module.eval().double()
        convolution = module.model.backbone.body.layer1[0].conv1.weight
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
        ({"check_val_every_n_epoch": 2, "max_epochs": 3}, [False, True, False]),
        ({"max_steps": 3}, [False]),
    ],
)
def test_records_of_epochs(trainer, validated, tmp_path):
    """An epoch without validation has no validation error; the learning rate is that of the epoch."""
    parts = {"trainer": trainer, "model": {"lr": 0.08, "milestones": [1, 2]}}
    run(tmp_path, config=merge(NUMBERED, parts))
    history, trained = final(tmp_path)["history"], ["epoch", "lr", "pooling", *TRAIN]
    assert [list(record) for record in history] == [
        [*trained, *VAL] if v else trained for v in validated
    ]
    rates = [0.08, 0.008, 0.0008][: len(history)]
    assert [record["lr"] for record in history] == pytest.approx(rates)


@pytest.mark.slow
def test_errors_are_those_of_the_last_network(tmp_path):
    """By the whole validation set at once; the losses of batches of 4 are weighted by their samples."""
    done = run(tmp_path, config=merge(NUMBERED, {"trainer": {"max_epochs": 1}}))
    images, labels = zip(*(done.data.splits.val[k] for k in range(8)), strict=True)
    with torch.no_grad():
        logits = done.module.eval()(torch.stack(images))
    labels = torch.tensor(labels)
    record = done.module.history[0]
    loss = torch.nn.functional.cross_entropy(logits, labels)
    assert record["val_loss"] == pytest.approx(loss.item(), rel=1e-5)
    assert record["val_error"] == pytest.approx(100 * (logits.argmax(-1) != labels).double().mean())
