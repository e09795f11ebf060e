"""What is seen of a training, with and without a terminal."""

import sys
from types import SimpleNamespace

import pytest
from lightning.pytorch.loggers import Logger

from rootpool.train import SettingsError, merge, prepare, resolve
from rootpool.train.logs import LOGGERS, make_loggers
from rootpool.train.progress import TrainingBar, best_epoch, epoch_line, watching
from small_runs import CONFIG

SHORT = merge(CONFIG, {"hybrid": None, "model": {"milestones": None}, "trainer": {"max_epochs": 2}})


@pytest.mark.slow
def test_a_line_per_epoch_where_nobody_watches(tmp_path, capsys):
    run = prepare(resolve(SHORT), tmp_path)
    run.fit()
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("epoch")]
    assert len(lines) == 2
    for epoch, line in enumerate(lines):
        record = run.module.history[epoch]
        assert line.startswith(f"epoch {epoch} of 2: train loss {record['train_loss']:.3f}, error ")
        assert f"val loss {record['val_loss']:.3f}, error {record['val_error']:.2f} %" in line
        assert "images/s" in line
    assert "left" in lines[0]
    assert "left" not in lines[1]


def test_a_bar_is_for_terminals(monkeypatch):
    assert not any(isinstance(callback, TrainingBar) for callback in watching())
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert any(isinstance(callback, TrainingBar) for callback in watching())


@pytest.mark.slow
def test_the_bar_shows_loss_error_speed_and_the_best_epoch(tmp_path, monkeypatch):
    """From the look at some validation batches on, which comes before the first image is trained."""
    monkeypatch.setattr("rootpool.train.progress.REFRESH", 0.0)
    bar, shown = TrainingBar(), []
    monkeypatch.setattr("rootpool.train.progress.watching", lambda: [bar])
    monkeypatch.setattr("rootpool.train.run.watching", lambda: [bar])
    look = bar.get_metrics
    monkeypatch.setattr(bar, "get_metrics", lambda *args: shown.append(look(*args)) or shown[-1])
    prepare(resolve(merge(SHORT, {"trainer": {"num_sanity_val_steps": 1}})), tmp_path).fit()
    assert shown[0] == {}
    assert shown[-1].keys() == {"loss", "error", "images/s", "best"}


def test_an_epoch_without_validation_and_the_best_of_several():
    record = {"epoch": 2, "lr": 1e-4, "train_loss": 0.5, "train_error": 12.0}
    assert epoch_line(record, -1, 80.4, None) == (
        "epoch 2: train loss 0.500, error 12.00 %; lr 0.0001; 80 images/s"
    )
    history = [{"epoch": k, "val_error": error} for k, error in enumerate((3.0, 2.0, 2.0))]
    assert best_epoch([*history, record])["epoch"] == 1
    assert best_epoch([record]) is None


class Recorded(Logger):
    """Stands for the loggers of packages that are not installed here."""

    def __init__(self, *args, **options) -> None:
        super().__init__()
        self.options, self.metrics = options, {}

    name = version = None

    def log_metrics(self, metrics, step=None) -> None:
        self.metrics |= metrics

    def log_hyperparams(self, *args, **options) -> None:
        pass


@pytest.fixture
def installed(monkeypatch):
    """W&B and MLflow, as far as this package sees of them."""
    mlflow = SimpleNamespace(get_tracking_uri=lambda: "sqlite:///here.db", __spec__=object())
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(__spec__=object()))
    for name in ("WandbLogger", "MLFlowLogger"):
        monkeypatch.setattr(f"rootpool.train.logs.{name}", Recorded)


@pytest.mark.slow
@pytest.mark.usefixtures("installed")
def test_other_loggers_hear_what_the_history_has(tmp_path):
    run = prepare(resolve({**SHORT, "loggers": ["wandb", "mlflow"]}), tmp_path, progress=False)
    run.fit()
    record = run.module.history[-1]
    for logger in run.trainer.loggers:
        for key in ("train_loss", "train_error", "val_error", "lr"):
            assert logger.metrics[key] == pytest.approx(record[key])


@pytest.mark.usefixtures("installed")
def test_a_continued_training_goes_on_in_its_run_of_wandb(tmp_path):
    def made(folder):
        return make_loggers(["wandb"], folder)[0].options

    assert made(tmp_path / "new")["id"] is None  # W&B draws one
    kept = tmp_path / "old" / "wandb"
    (kept / "offline-run-20300101_120000-abc123").mkdir(parents=True)
    (kept / "latest-run").symlink_to("offline-run-20300101_120000-abc123")
    assert made(tmp_path / "old")["id"] == "abc123"
    assert made(tmp_path / "old")["name"] == "old"
    (logger,) = make_loggers(["mlflow"], tmp_path)
    assert logger.options["tracking_uri"] == "sqlite:///here.db"


@pytest.mark.usefixtures("installed")
def test_what_a_logger_refuses_is_a_mistake_in_the_settings(tmp_path, monkeypatch):
    refusal = type("UsageError", (Exception,), {"__module__": "wandb.errors"})

    def refuse(*args, **options):
        raise refusal("no API key;\n  log in")

    monkeypatch.setattr("rootpool.train.logs.WandbLogger", refuse)
    with pytest.raises(SettingsError, match=r"^wandb cannot log this .*: no API key; log in$"):
        prepare(resolve({**SHORT, "loggers": ["wandb"]}), tmp_path, progress=False)


def test_loggers_by_name(tmp_path, monkeypatch):
    (logger,) = make_loggers(["tensorboard"], tmp_path)
    assert str(tmp_path) in logger.log_dir
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for name in LOGGERS:
        with pytest.raises(
            SettingsError, match=f"loggers: {name} needs the package {name}; try pip"
        ):
            make_loggers([name], tmp_path)
