"""The report: published beside measured, and a verdict for every claim."""

import pytest

from paper_runs import study
from studies.paper import recorded, smoothness
from studies.paper.entries import ENTRIES
from studies.paper.plan import Plan
from studies.paper.report import make_page, side_by_side
from studies.paper.theory import THEORY

PLAN = Plan(seeds=2)
SHOWN = (
    "figure:training-curves",
    "figure:precision-and-smoothness",
    "figure:smooth-gradients",
    "table:condition-number",
    "table:alexnet",
    "table:fgvc",
    "table:approximation-error",
    "table:upper-bounds",
    "text:seeds",
    "theory:pade-rank",
)


@pytest.fixture(scope="module")
def page():
    def records(study, methods, dtypes=("float64",)):
        return [
            {
                "run": m,
                "method": m,
                "precision": d,
                "moment": at,
                "seed": 0,
                "beta": 1.0 + len(m) / 9,
            }
            for m in methods
            for d in dtypes
            for at in ("untrained", "trained")
        ]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(smoothness, "smoothness_records", records)
        results = {}
        for name in SHOWN:
            entry = ENTRIES[name]
            if not entry.suits(PLAN):
                results[name] = None
                continue
            runs = study(PLAN, entry.trials(PLAN), {"isqrt-cov": 30.0, "gap": 50.0})
            results[name] = entry.compute(runs)
    return make_page(results, PLAN)


def test_markdown_has_every_entry_with_its_verdict_and_its_commands(page, tmp_path):
    path = page.write_markdown(tmp_path / "report.md")
    text = path.read_text(encoding="utf-8")
    for name in SHOWN:
        assert f"## {ENTRIES[name].title}" in text.replace("\\", "")
    assert "python -m studies paper table:alexnet --seeds 2" in text
    # Code is code.
    assert "rootpool train birds --method svd-pade --data CUB_200_2011 --weights runs/" in text
    assert "> ✓ Measured in exact arithmetic" in text
    assert "> ✗ " in text
    assert "✓ supported |" in text
    assert "– not measured |" in text
    assert "| SVD-Pade | paper | 48.41 | 23.91 |" in text
    assert "| exact (not in this table) | **here** |" in text
    assert "svd-pi" not in text
    for line in text.splitlines():
        if line.startswith("!["):
            assert (tmp_path / line.rpartition("(")[2].rstrip(")")).is_file()


def test_comparisons_that_are_not_judged_say_so(page):
    """Nor does another line begin with the question: the documentation finds the table by it."""
    after = page.markdown().split("\nStandalone, iSQRT-COV beats the SVD methods.\n", 1)[1]
    table = after.split("\n\n")[0].splitlines()
    rows = {line.split(" | ")[1]: line for line in table if line.startswith("| isqrt-cov")}
    assert "not judged" in rows["exact"]
    assert "not judged" not in rows["svd-pade"]


def test_an_entry_that_needs_more_shows_what_was_recorded_elsewhere(monkeypatch, tmp_path):
    study = {"seeds": 3, "verdicts": {"table:fgvc": "contradicted"}}
    other = {"seeds": 3, "verdicts": {"table:fgvc": "not measured"}}
    monkeypatch.setattr(recorded, "load_recorded", lambda: {"birds-lite": study, "patches": other})
    text = (
        make_page({"table:fgvc": None}, PLAN).write_markdown(tmp_path / "p.md").read_text("utf-8")
    )
    assert "> ✗ Our record (birds, fine-tuned): the claim is contradicted." in text
    assert text.count("Our record") == 1


def test_the_page_is_written(page, tmp_path):
    text = page.write(tmp_path / "index.html").read_text(encoding="utf-8")
    for name in SHOWN:
        assert ENTRIES[name].title in text


def test_published_stands_above_measured():
    entry = ENTRIES["table:approximation-error"]
    rows = side_by_side(entry, entry.compute(None)).rows
    assert [row[0] for row in rows] == ["Taylor", "", "Pade", ""]
    assert rows[0][1:4] == ["paper", "9e−19", "7e−18"]
    assert rows[1][-1].text == "904"
    assert rows[3][2].text == "0"


def test_a_page_of_the_theory_alone_explains_itself():
    text = make_page({s.entry: s.result() for s in THEORY}, PLAN).markdown()
    assert text.startswith("# The gradient of a matrix square root")
    assert "Global covariance pooling keeps how channels vary together" in text
    assert text.count("> ✓ ") == len(THEORY)
    assert "python -m studies paper theory" in text
