"""The training module: learning rates, records of epochs, and what is built from settings."""

import pytest
import torch

from rootpool.train.module import TRAIN, VAL
from small_runs import final, run, typed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "validated"),
    [("trainer.check_val_every_n_epoch=2", [False, True, False]), ("trainer.max_steps=3", [False])],
)
def test_records_of_epochs(limit, validated, tmp_path):
    """An epoch without validation has no validation error; the learning rate is that of the epoch."""
    run(tmp_path, config=typed(f"model.lr=0.08 ; model.milestones=[1, 2] ; {limit}"))
    history, trained = final(tmp_path)["history"], ["epoch", "lr", "pooling", *TRAIN]
    keys = [[*trained, *VAL] if v else trained for v in validated]
    assert [list(record) for record in history] == keys
    rates = [0.08, 0.008, 0.0008][: len(history)]
    assert [record["lr"] for record in history] == pytest.approx(rates)


@pytest.mark.slow
def test_errors_are_those_of_the_last_network(tmp_path):
    """By the whole validation set at once; the losses of batches of 4 are weighted by their samples."""
    done = run(tmp_path, config=typed("trainer.max_epochs=1"))
    images, labels = zip(*(done.data.splits.val[k] for k in range(8)), strict=True)
    with torch.no_grad():
        logits = done.module.eval()(torch.stack(images))
    labels = torch.tensor(labels)
    record = done.module.history[0]
    loss = torch.nn.functional.cross_entropy(logits, labels)
    assert record["val_loss"] == pytest.approx(loss.item(), rel=1e-5)
    assert record["val_error"] == pytest.approx(100 * (logits.argmax(-1) != labels).double().mean())
