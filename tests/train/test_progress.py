"""What is seen of a training, with and without a terminal."""

import sys

import pytest
from lightning.pytorch.callbacks import RichProgressBar

from rootpool.train import prepare, resolve
from rootpool.train.progress import best_epoch, epoch_line, progress_callbacks
from small_runs import NUMBERED


@pytest.mark.slow
def test_a_line_per_epoch_where_nobody_watches(tmp_path, capsys):
    run = prepare(resolve(NUMBERED), tmp_path)
    run.fit()
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("epoch")]
    assert len(lines) == 3
    for epoch, line in enumerate(lines):
        record = run.module.history[epoch]
        assert line.startswith(f"epoch {epoch} of 3: train loss {record['train_loss']:.3f}, error ")
        assert f"val loss {record['val_loss']:.3f}, error {record['val_error']:.2f} %" in line
        assert "images/s" in line
        assert ("left" in line) == (epoch < 2)


def test_a_bar_is_for_terminals(monkeypatch):
    assert not any(isinstance(callback, RichProgressBar) for callback in progress_callbacks())
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert any(isinstance(callback, RichProgressBar) for callback in progress_callbacks())


def test_an_epoch_without_validation_and_the_best_of_several():
    record = {"epoch": 2, "lr": 1e-4, "train_loss": 0.5, "train_error": 12.0}
    assert epoch_line(record, -1, 80.4, None) == (
        "epoch 2: train loss 0.500, error 12.00 %; lr 0.0001; 80 images/s"
    )
    history = [{"epoch": k, "val_error": error} for k, error in enumerate((3.0, 2.0, 2.0))]
    assert best_epoch([*history, record])["epoch"] == 1
    assert best_epoch([record]) is None
