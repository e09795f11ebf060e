"""The report: published beside measured, a mark for every claim, and pages that fit every window."""

import re

import pytest

from paper_runs import study
from rootpool.paper import smoothness
from rootpool.paper.bench import Bench
from rootpool.paper.entries import ENTRIES, title
from rootpool.paper.report import make_page, side_by_side
from rootpool.paper.theory import THEORY

BENCH = Bench(seeds=2)
SHOWN = (
    "figure:training-curves",
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
            {"run": m, "method": m, "dtype": d, "moment": at, "seed": 0, "beta": 1.0 + len(m) / 9}
            for m in methods
            for d in dtypes
            for at in ("untrained", "trained")
        ]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(smoothness, "smoothness_records", records)
        results = {}
        for name in SHOWN:
            entry = ENTRIES[name]
            runs = study(BENCH, entry.trials(BENCH), {"isqrt-cov": 30.0, "gap": 50.0})
            results[name] = entry.compute(runs) if entry.suits(BENCH) else None
    return make_page(results, BENCH)


@pytest.fixture(scope="module")
def path(page, tmp_path_factory):
    return page.write(tmp_path_factory.mktemp("page") / "report.html")


def test_markdown_has_every_entry_with_its_mark_and_its_commands(page, tmp_path):
    path = page.write_markdown(tmp_path / "report.md")
    text = path.read_text(encoding="utf-8")
    for name in SHOWN:
        assert f"## {title(name)}" in text.replace("\\", "")
    assert "rootpool paper table:alexnet --seeds 2" in text
    # Code is code.
    assert "rootpool train --recipe birds-svd-pade --data CUB\\_200\\_2011" not in text
    assert "rootpool train --recipe birds-svd-pade --data CUB_200_2011 --weights runs/" in text
    assert "> ✓ Measured in exact arithmetic" in text
    assert "> ✗ " in text
    assert "| SVD-Pade | paper | 48.41 | 23.91 |" in text
    for line in text.splitlines():
        if line.startswith("!["):
            assert (tmp_path / line.rpartition("(")[2].rstrip(")")).is_file()


def test_links_of_the_page_lead_to_its_entries(path):
    text = path.read_text(encoding="utf-8")
    links = re.findall(r'<td[^>]*><a href="#([^"]*)"', text)
    assert len(links) == len(SHOWN) - 1  # all but the statement
    assert set(links) <= set(re.findall(r'<h[23] id="([^"]*)"', text))


def test_published_stands_above_measured():
    result = ENTRIES["table:approximation-error"].compute(None)
    rows = side_by_side("table:approximation-error", result).rows
    assert [row[0] for row in rows] == ["Taylor", "", "Pade", ""]
    assert rows[0][1:4] == ["paper", "9e−19", "7e−18"]
    assert rows[1][-1].text == "904"
    assert rows[3][2].text == "0"


def test_a_page_of_the_theory_alone_explains_itself():
    text = make_page({name: compute() for name, compute in THEORY.items()}, BENCH).markdown()
    assert text.startswith("# The gradient of a matrix square root")
    assert "Global covariance pooling keeps how channels vary together" in text
    assert text.count("> ✓ ") == len(THEORY)
    assert "rootpool paper theory" in text
