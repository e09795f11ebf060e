"""What is seen of a training, with and without a terminal."""

import sys

import pytest
from lightning.pytorch.callbacks import RichProgressBar

from rootpool.report.runs import best_epoch
from rootpool.train import prepare, resolve
from rootpool.train.progress import epoch_line
from small_runs import NUMBERED


@pytest.mark.slow
def test_a_line_per_epoch_and_a_bar_for_terminals(tmp_path, capsys, monkeypatch):
    prepare(resolve(NUMBERED), tmp_path).fit()
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("epoch")]
    assert [line[:12] for line in lines] == [f"epoch {k} of 3" for k in (1, 2, 3)]
    assert [line.endswith(" left") for line in lines] == [True, True, False]
    for watched in (False, True):
        monkeypatch.setattr(sys.stdout, "isatty", lambda watched=watched: watched)
        made = prepare(resolve(NUMBERED), tmp_path / "other")
        bars = [c for c in made.trainer.callbacks if isinstance(c, RichProgressBar)]
        assert len(bars) == watched
    (bar,) = bars
    bar.setup(made.trainer, made.module, "fit")
    assert [bar._get_train_description(k) for k in (0, 2)] == ["Epoch 1/3", "Epoch 3/3"]


def test_an_epoch_without_validation_and_the_best_of_several():
    record = {"epoch": 2, "lr": 1e-4, "train_loss": 0.5, "train_error": 12.0}
    assert epoch_line(record, -1, 80.4, 3.0) == (
        "epoch 3: train loss 0.500, error 12.00 %; lr 0.0001; 80 images/s"
    )
    history = [{"epoch": k, "val_error": error} for k, error in enumerate((3.0, 2.0, 2.0))]
    assert best_epoch([*history, record])["epoch"] == 1
    assert best_epoch([record]) is None
