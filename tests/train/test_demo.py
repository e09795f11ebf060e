"""The demo: what its page says of runs that were never trained, and the gradients that it measures."""

import pytest
import yaml

from rootpool.report import write_records
from rootpool.train import ImageData
from rootpool.train import demo as module

EVERY = {run: [20.0] for run in module.RUNS} | {module.AVERAGE: [38.0]}
FAILS = {module.PUBLISHED: [70.0]}


@pytest.fixture
def page(tmp_path, monkeypatch):
    def run_trials(trials, folder, *, workers, on_event):
        for trial in trials:
            target = folder / trial.key
            target.mkdir(parents=True)
            (target / "config.yaml").write_text(yaml.safe_dump(dict(trial.config)))
            errors = enumerate([90.0, *run_trials.errors[trial.label]])
            history = [{"epoch": k, "val_error": x, "train_error": x} for k, x in errors]
            write_records(history, target / "history.csv")
            on_event(module.Event(trial.key, done=True))

    def written(errors, seeds):
        run_trials.errors = EVERY | errors
        assert module.demo(tmp_path / "out", seeds=seeds, markdown=tmp_path / "demo.md") == 0
        assert "<svg" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
        return (tmp_path / "demo.md").read_text(encoding="utf-8")

    sizes = {module.LOW: 1e-3, module.PUBLISHED: 30.0}
    measured = [
        {"run": r, "step": k, "gradient_error": x} for r, x in sizes.items() for k in range(3)
    ]
    monkeypatch.setattr(module, "run_trials", run_trials)
    monkeypatch.setattr(module, "gradient_errors", lambda: measured)
    return written


@pytest.mark.parametrize(
    ("errors", "seeds", "said"),
    [
        (FAILS, 1, ["prints, fails (70.0 %). ", "protocol, it ends at 20.0 %."]),
        (FAILS | {module.HYBRID: [21.0, 65.0]}, 1, ["protocol, it fails (65.0 %)."]),
    ],
)
def test_the_page_opens_with_what_the_runs_show(errors, seeds, said, page):
    text = page(errors, seeds)
    for words in said:
        assert words in text
    assert text.index(said[0]) < text.index("picture.svg") < text.index("## Errors")


def test_gradients_of_the_first_step(monkeypatch):
    loader = ImageData.train_dataloader
    monkeypatch.setattr(ImageData, "train_dataloader", lambda data: [next(iter(loader(data)))])
    low, published = (record["gradient_error"] for record in module.gradient_errors())
    assert 0 < low < 0.1 < published
