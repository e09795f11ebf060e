"""The demo: which trainings it asks for, and a page of runs that were never trained."""

import pytest
import yaml

from rootpool.report import write_records
from rootpool.train import demo as module

ERRORS = {"gap": 28.0, "exact": 21.0, "exact, hybrid": 19.0}


@pytest.fixture
def without_training(monkeypatch):
    def run_trials(trials, folder, *, workers, on_event):
        for trial in trials:
            target = folder / trial.key
            target.mkdir(parents=True)
            (target / "config.yaml").write_text(yaml.safe_dump(dict(trial.config)))
            error = ERRORS[trial.label] + trial.config["seed"]
            history = [{"epoch": 0, "val_error": error, "train_error": 9.0, "train_loss": 1.0}]
            write_records(history, target / "history.csv")
            on_event(module.Event(trial.key, done=True))

    monkeypatch.setattr(module, "run_trials", run_trials)


@pytest.mark.parametrize("seeds", [1, 2])
def test_the_page_compares_the_runs(without_training, tmp_path, seeds):
    page = tmp_path / "docs" / "demo.md"
    options = {"seeds": seeds, "methods": ["exact", "gap"], "markdown": page}
    assert module.demo(tmp_path / "out", **options) == 0
    text = page.read_text(encoding="utf-8")
    for label, error in ERRORS.items():
        assert f"| {label} | {seeds} | 1 | " in text
        assert f"{error + (seeds - 1) / 2:.2f}" in text
    assert ("One seed" in text) == (seeds == 1)
    assert (tmp_path / "out" / "index.html").is_file()


def test_mistakes():
    with pytest.raises(ValueError, match="--seeds must be positive, got 0"):
        module.demo(seeds=0)
    with pytest.raises(ValueError, match="svd-pad"):
        module.demo(methods=["svd-pad"])
