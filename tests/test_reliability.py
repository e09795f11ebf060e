"""The page on reliability and the script that writes its figures."""

import json
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "appendix" / "reliability.md"
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "record_reliability.py"))

FINDING = {"case": "matrix/Hilbert/float32/37", "check": "sqrtm", "measure": "|QQ - A|"}
RECORD = {
    "cases": 12345,
    "calls": 1,
    "clear errors": 0,
    "seconds": 120.0,
    "machine": {"cores": 2},
    "failures": [],
    "worst": [{"family": "matrix", **FINDING, "figure": 2.5, "tried": 9, "measured": 7}],
    "kinds": [{"family": "matrix", "kind": "Hilbert", "cases": 9, **FINDING, "figure": 2.5}],
}


def test_record_goes_between_its_marks(tmp_path):
    record, page = tmp_path / "torture.json", tmp_path / "page.md"
    record.write_text(json.dumps(RECORD))
    page.write_text("above\n<!-- torture: begin -->\nold\n<!-- torture: end -->\nbelow\n")
    SCRIPT["main"](str(record), str(page))
    text = page.read_text()
    assert text.startswith("above\n<!-- torture: begin -->\n")
    assert text.endswith("<!-- torture: end -->\nbelow\n")
    assert "old" not in text
    assert "12,345" in text
    assert "| 7 of 9 | 2.5 |" in text
    page.write_text("no marks")
    with pytest.raises(SystemExit, match="has no '<!-- torture: begin -->'"):
        SCRIPT["main"](str(record), str(page))


def test_an_interrupted_run_is_refused(tmp_path):
    record = tmp_path / "torture.json"
    record.write_text(json.dumps(RECORD | {"cases": 800}))
    with pytest.raises(SystemExit, match="has 800 cases: the run was interrupted"):
        SCRIPT["main"](str(record), str(PAGE))


KILLS = [{"doing": "a step"}, {"doing": "a step"}, {"doing": "a checkpoint"}]
BITS = {"setting": "as it is", "result": "sqrtm", "cases": 16, "place": 0, "company": 3}
CPU = {"device": "a CPU", "threads": 1, "torch": "2.99"}
OTHERS = {
    "kills": (
        {"kills": KILLS, "equal": 2, "tried": 3, "seconds": 9, "machine": {"cores": 2}},
        ["2 of 3 ended", "a step 2, a checkpoint 1"],
    ),
    "bits": (
        {"bits": [BITS], "machine": CPU, "mkl": "MKL 1"},
        ["a CPU, 1 threads, torch 2.99, MKL 1", "| as it is | `sqrtm` |  | 0 of 16 | 3 of 16 |"],
    ),
    "waits": (
        {"waits": [{"step": "x", "checked": [6, 1], "unchecked": [0, 0]}]},
        ["| `x` | 6 + 1 | 0 + 0 |"],
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_records(name, tmp_path):
    content, texts = OTHERS[name]
    record, page = tmp_path / f"{name}.json", tmp_path / "page.md"
    record.write_text(json.dumps(content))
    page.write_text(f"<!-- {name}: begin -->\n<!-- {name}: end -->\n")
    SCRIPT["main"](str(record), str(page))
    assert [text for text in texts if text not in page.read_text()] == []


@pytest.mark.parametrize("name", [name for name, _ in SCRIPT["BLOCKS"].values()])
def test_page_has_a_place_for_the_record(name):
    assert SCRIPT["marked"](name).search(PAGE.read_text(encoding="utf-8"))
