"""From run folders to a page: endings, failures, what is kept, and the whole way with tiny trainings."""

from dataclasses import replace

import pytest

import paper_runs
from paper_runs import made_up, place
from rootpool.report import read_run
from rootpool.train import SettingsError
from studies.__main__ import COMMANDS, main
from studies.engine import kept, network
from studies.engine.command import measure_entry
from studies.engine.kept import Kept
from studies.engine.network import Network
from studies.engine.page import Measured, study_page
from studies.engine.questions import Answer
from studies.engine.study import Entry, Part, Runs
from studies.engine.training import Place, facts
from studies.paper.command import load_paper

PATCHES = Network("patches", seeds=2)


def test_endings_and_failures():
    trials = PATCHES.trials(Runs(["exact"]))
    good = [made_up(t, 20.0, noise=0) for t in trials]
    row = good[1].ending
    assert (row["val_error"], row["best_error"], row["accuracy"]) == (21.0, 21.0, 79.0)
    assert row["log_condition"] == pytest.approx(3, abs=0.01)  # 0.1 over 1e-4
    gone = made_up(trials[0], None)
    assert gone.ending["val_error"] is None
    far = made_up(replace(trials[1], label="far"), 31.5, noise=0)
    found = Place.of_runs(PATCHES, [*good, gone, far], good, limit=10.0)
    assert [r["failed"] for r in found.rows] == [False, False, True, True]
    assert facts(found)["failed, and left out of the comparisons"] == "exact: seeds 0; far: seeds 1"
    history = [*good[0].folder.history[:-1], {"epoch": 7, "train_error": 1.0}]
    with pytest.raises(SettingsError, match="was not validated after its last epoch"):
        assert replace(good[0], folder=replace(good[0].folder, history=history)).ending


def test_what_was_measured_is_kept_for_the_code_that_measured_it(tmp_path, monkeypatch):
    calls = []

    def measure():
        calls.append(1)
        return [{"a": float("inf")}]

    keep = Kept(tmp_path)
    for made_from in ({"runs": ["x"]}, {"runs": ["x"]}, {"runs": ["y"]}):
        assert keep("table:a", made_from, measure) == [{"a": float("inf")}]
    assert len(calls) == 2
    monkeypatch.setattr(kept, "studies_digest", lambda: "other code")
    keep("table:a", {"runs": ["x"]}, measure)
    assert len(calls) == 3
    for file in tmp_path.iterdir():
        file.write_text("[{")
    with pytest.raises(ValueError, match=r"\.json is damaged .*; delete it and run this again"):
        keep("table:a", {"runs": ["x"]}, measure)


def test_a_page_has_a_row_for_each_part_and_no_verdict():
    parts = [Part("One.", measured="x"), Part("Two.", measured="x", scale="full size")]
    entry = Entry("table:a", "Table 1", "Both.", parts=parts, beside=[Part("Three.", measured="x")])
    answers = {
        "here": [Answer(parts[0], "seen", "0.1"), Answer(parts[1], "opposite")],
        "there": [Answer(parts[0], "not testable"), Answer(parts[1], "seen")],
    }
    beside = {"here": [Answer(entry.beside[0], "seen")]}
    measured = [Measured(entry, answers, beside)]
    study = replace(load_paper(), entries={}, sections={"table": "Tables"})
    text = study_page(study, measured, "command").markdown()
    assert "| One. | seen at small scale | not testable at our scale |" in text
    assert "| Two. | not reproduced at full size | reproduced at full size |" in text
    assert "> ✓ **seen at small scale (here).** One. Here: 0.1." in text
    assert "(our own question, here).** Three." in text
    assert measured[0].summary == "here: 1 of 2 seen; there: 1 of 2 seen"
    assert not any(word in text for word in ("supported", "contradicted", "inconclusive"))


def test_an_entry_without_its_data_says_what_it_needs(tmp_path):
    study = load_paper()
    entry = study.entries["table:fgvc"]
    one = measure_entry(study, entry, [], Kept(tmp_path))
    assert one.summary == "not tried"
    text = study_page(study, [one], "command").markdown()
    assert "Not measured here: this needs images" in text
    assert "rootpool train birds --method svd-pade-released" in text


def test_a_place_answers_and_is_drawn(tmp_path):
    study = load_paper()
    errors = {"svd-pade, hybrid": 18.0, "mpn-cov": None}
    found = place(study, Network("patches", seeds=6), "table:alexnet", errors)
    one = measure_entry(study, study.entries["table:alexnet"], [found], Kept(tmp_path))
    outcomes = [answer.outcome for answer in one.answers["without batch norm"]]
    assert outcomes[3] == "seen"  # Pade ahead of the others after the switch
    text = study_page(study, [one], "command").markdown()
    assert "mpn-cov: seeds 0, 1, 2, 3, 4, 5" in text
    assert "Without 6 runs that failed." in text


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(network, "recipe", paper_runs.tiny_recipe)
    monkeypatch.setattr(network, "SPECTRUM_EVERY", 1)
    monkeypatch.setattr("rootpool.train.study._train_all", paper_runs.run_here)


@pytest.mark.slow
@pytest.mark.usefixtures("tiny")
def test_entries_of_two_studies_share_their_ordinary_runs(tmp_path, capsys):
    where = ["--seeds", "1", "--runs", str(tmp_path / "runs"), "--output"]
    names = ["figure:eigenvalue-ratio", "table:condition-number"]
    assert main(["paper", *names, *where, str(tmp_path / "paper")]) == 0
    assert "figure:eigenvalue-ratio: " in capsys.readouterr().out
    page = (tmp_path / "paper" / "report.md").read_text(encoding="utf-8")
    assert "in 5 steps" in page  # three epochs of two steps, counted from 0
    assert "after 1 epochs of Newton-Schulz" in page
    assert "| part of the claim | with batch norm | without batch norm |" in page
    runs = sorted((tmp_path / "runs").iterdir())
    # With and without batch norm: MPN-COV standalone and hybrid, its first stage, and the reference.
    assert len(runs) == 2 * 4
    assert {read_run(run).settings["model.method"] for run in runs} == {
        "mpn-cov-published",
        "isqrt-cov",
    }
    before = {run: (run / "last.ckpt").stat().st_mtime_ns for run in runs}
    assert main(["paper", *names, *where, str(tmp_path / "paper")]) == 0
    assert main(["approximation", "why:halves", *where, str(tmp_path / "why")]) == 0
    assert {run: (run / "last.ckpt").stat().st_mtime_ns for run in runs} == before
    assert len(list((tmp_path / "runs").iterdir())) == 2 * (4 + 3)  # isqrt-cov was there
    assert "| value: accurate |" in (tmp_path / "why" / "report.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("study", COMMANDS)
def test_the_list_fits_80_columns(study, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main([study, "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 8
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["paper", "table:sped"], "unknown entry 'table:sped'; did you mean table:speed"),
        (["paper", "theory:ties", "--seeds", "0"], "seeds must be positive, got 0"),
        (["birds", "--data", "nowhere"], "nowhere is not a folder; --data must be CUB-200-2011"),
        (["followups", "few-shot"], "the part few-shot needs --birds"),
        (["followups", "smal"], "unknown part 'smal'; did you mean small"),
    ],
)
def test_wrong_arguments(arguments, message, capsys):
    assert main(arguments) == 1
    assert message in capsys.readouterr().err
