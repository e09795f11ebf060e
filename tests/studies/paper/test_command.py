"""``rootpool paper``: what it runs, what it keeps, what it says."""

import dataclasses
import json

import pytest
import yaml
from rootpool.train.jobs import Event, result_file

from images import make_image_tree
from rootpool.files import write_atomically
from rootpool.train import merge, recipe
from studies.__main__ import main
from studies.paper import command, plan
from studies.paper.command import paper
from studies.paper.entries import ENTRIES
from studies.paper.result import Result

SMALL = {
    "model": {"milestones": [1, 2]},
    "data": {"batch_size": 8, "workers": 0},
    "trainer": {"max_epochs": 3, "limit_train_batches": 2, "limit_val_batches": 2},
    "spectrum_every": 1,
}


@pytest.fixture
def counted(monkeypatch):
    """Entries that count how often they are computed."""
    calls = []

    def compute(study):
        calls.append(study)
        records = ({"a": float("inf")},)
        return Result("theory:pade-rank", "Claim.", records, "inconclusive", "Reason.")

    entry = dataclasses.replace(
        ENTRIES["theory:pade-rank"],
        compute=compute,
        draw=lambda result, plan: [],
        depends=lambda: {"machine": len(machines)},
    )
    machines = []
    monkeypatch.setitem(ENTRIES, "theory:pade-rank", entry)
    return calls, machines


def test_a_result_is_kept_for_the_machine_and_the_code_that_made_it(counted, tmp_path, monkeypatch):
    calls, machines = counted
    for _ in range(2):
        assert paper(["theory:pade-rank"], output=tmp_path) == 0
    assert len(calls) == 1
    machines.append("another")
    paper(["theory:pade-rank"], output=tmp_path)
    assert len(calls) == 2
    monkeypatch.setattr(command, "_source", lambda: "other code")
    paper(["theory:pade-rank"], output=tmp_path)
    assert len(calls) == 3
    assert "Reason." in (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "> ≈ Reason." in (tmp_path / "report.md").read_text(encoding="utf-8")
    assert (tmp_path / "results" / "theory-pade-rank.csv").is_file()


@pytest.mark.parametrize("text", ['{"entry": "theory:pade-', "[1]", '{"entry": 1}'])
def test_a_damaged_result_is_named(counted, tmp_path, text):
    paper(["theory:pade-rank"], output=tmp_path)
    (kept,) = (tmp_path / "results").glob("*.json")
    kept.write_text(text)
    with pytest.raises(
        ValueError, match=r"\.json is corrupt .*; delete it and it will be recomputed"
    ):
        paper(["theory:pade-rank"], output=tmp_path)


def test_markdown_elsewhere(counted, tmp_path):
    paper(["theory:pade-rank"], output=tmp_path / "out", markdown=tmp_path / "docs" / "theory.md")
    assert (tmp_path / "docs" / "theory.md").is_file()
    assert not (tmp_path / "out" / "report.md").exists()


def run_here(jobs, folder, workers=None):
    """What `run_jobs` does, in this process; that of others is tested in test_jobs and test_study."""
    for key, job in jobs.items():  # first stages stand before the runs that need them
        path = result_file(folder, key, job)
        if not path.is_file():
            path.parent.mkdir(parents=True)
            content = job.work(path.parent, lambda record: None)
            if content is not None:
                write_atomically(path, content)
        yield Event(key, done=True)


@pytest.fixture
def small_recipes(monkeypatch):
    """Recipes of three epochs of two steps; those for ImageNet have a small network."""

    def small(family, method, hybrid=False):
        found = recipe(family, method, hybrid)
        schedule = {"hybrid": {"switch_epoch": 1}} if "hybrid" in found.config else {}
        network = {
            "model": {"backbone": "resnet10t", "reduction": 16},
            "data": {"resize": 64, "crop": 64},
        }
        imagenet = network if "imagenet" in family else {}
        return dataclasses.replace(found, config=merge(found.config, SMALL, schedule, imagenet))

    monkeypatch.setattr(plan, "recipe", small)
    monkeypatch.setattr(plan, "SPECTRUM_EVERY", 1)
    monkeypatch.setattr("rootpool.train.study.run_jobs", run_here)


@pytest.mark.slow
@pytest.mark.usefixtures("small_recipes")
def test_trained_entries_from_the_command_line(tmp_path, capsys):
    entries = ["figure:eigenvalue-ratio", "table:condition-number"]
    arguments = ["paper", *entries, "--seeds", "1", "--output", str(tmp_path)]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert "figure:eigenvalue-ratio: ≈ inconclusive" in said or "✗ contradicted" in said
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "in 5 steps" in page  # three epochs of two steps, counted from 0
    assert "after 1 epochs of Newton-Schulz" in page
    runs = sorted((tmp_path / "runs").iterdir())
    assert len(runs) == 3  # standalone, hybrid, and its first stage
    before = [(run / "last.ckpt").stat().st_mtime_ns for run in runs]
    assert main(arguments) == 0
    assert [(run / "last.ckpt").stat().st_mtime_ns for run in runs] == before
    # The demo trains no run again that the paper has trained.
    shared = ["--runs", str(tmp_path / "runs"), "--methods", "mpn-cov", "isqrt-cov"]
    assert main(["demo", *shared, "--output", str(tmp_path / "demo")]) == 0
    assert [(run / "last.ckpt").stat().st_mtime_ns for run in runs] == before
    results = json.loads((tmp_path / "demo" / "results.json").read_text(encoding="utf-8"))
    assert {result["method"] for result in results} == {"mpn-cov", "mpn-cov, fused", "isqrt-cov"}
    text = (tmp_path / "demo" / "report.md").read_text(encoding="utf-8")
    assert "table:condition-number" in text
    assert (tmp_path / "demo" / "index.html").is_file()


@pytest.mark.slow
@pytest.mark.usefixtures("small_recipes")
def test_trained_on_a_folder_of_images(tmp_path, capsys):
    data = make_image_tree(tmp_path / "images", classes=5, per_class=4, size=(80, 64))
    output = tmp_path / "out"
    arguments = ["--data", str(data), "--seeds", "1", "--output", str(output)]
    assert main(["paper", "table:condition-number", *arguments]) == 0
    assert "table:condition-number: " in capsys.readouterr().out
    for run in (output / "runs").iterdir():
        config = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))
        assert config["data"]["transform"] == "imagenet"
        assert config["data"]["root"] == str(data)
        assert (run / "history.csv").read_text(encoding="utf-8").count("\n") > 1
    page = (output / "index.html").read_text(encoding="utf-8")
    assert "in miniature" not in page
    assert "alexnet-imagenet" in page


def test_the_list_fits_80_columns_and_keeps_every_name_whole(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["paper", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    listed = [line.split()[0] for line in lines if not line.startswith(" ")]
    assert listed == list(ENTRIES)


def test_unknown_entries_and_no_seeds(capsys):
    assert main(["paper", "table:sped"]) == 1
    assert "unknown entry 'table:sped'; did you mean table:speed" in capsys.readouterr().err
    assert main(["paper", "theory:ties", "--seeds", "0"]) == 1
    assert "seeds must be positive, got 0" in capsys.readouterr().err
