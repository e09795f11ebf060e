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
RECORDS = {
    "torture": (RECORD, ["12,345", "| 7 of 9 | 2.5 |"]),
    "waits": (
        {"waits": [{"step": "x", "checked": [6, 1], "unchecked": [0, 0]}]},
        ["| `x` | 6 + 1 | 0 + 0 |"],
    ),
}


@pytest.mark.parametrize("name", RECORDS)
def test_record_goes_between_its_marks(name, tmp_path):
    content, texts = RECORDS[name]
    record, page = tmp_path / f"{name}.json", tmp_path / "page.md"
    record.write_text(json.dumps(content))
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\nbelow\n"
    page.write_text(f"above\n{begin}old\n{end}")
    SCRIPT["main"](str(record), str(page))
    above, _, rest = page.read_text().partition(begin)
    written, _, below = rest.partition(end)
    assert (above, below) == ("above\n", "")
    assert [text for text in texts if text not in written] == []
    assert "old" not in written
    assert SCRIPT["marked"](name).search(PAGE.read_text(encoding="utf-8")), "the page has its place"


def test_what_cannot_be_written_is_refused(tmp_path):
    record, page = tmp_path / "torture.json", tmp_path / "page.md"
    page.write_text("no marks")
    for cases, target, message in (
        (12345, page, "has no '<!-- torture: begin -->'"),
        (800, PAGE, "has 800 cases: the run was interrupted"),
    ):
        record.write_text(json.dumps(RECORD | {"cases": cases}))
        with pytest.raises(SystemExit, match=message):
            SCRIPT["main"](str(record), str(target))
