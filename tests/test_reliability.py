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


def test_record_goes_between_its_marks_or_is_refused(tmp_path):
    record, page = tmp_path / "torture.json", tmp_path / "page.md"
    record.write_text(json.dumps(RECORD))
    begin, end = "<!-- torture: begin -->\n", "<!-- torture: end -->\nbelow\n"
    page.write_text(f"above\n{begin}old\n{end}")
    SCRIPT["main"](str(record), str(page))
    above, _, rest = page.read_text().partition(begin)
    written, _, below = rest.partition(end)
    assert (above, below, "old" in written) == ("above\n", "", False)
    assert "12,345" in written
    assert "| 7 of 9 | 2.5 |" in written
    page.write_text("no marks")
    for cases, target, message in (
        (12345, page, "has no '<!-- torture: begin -->'"),
        (800, PAGE, "has 800 cases: the run was interrupted"),
    ):
        record.write_text(json.dumps(RECORD | {"cases": cases}))
        with pytest.raises(SystemExit, match=message):
            SCRIPT["main"](str(record), str(target))


@pytest.mark.parametrize("name", ["torture", "waits", "bits"])
def test_the_page_has_a_place_for_each_record(name):
    assert SCRIPT["marked"](name).search(PAGE.read_text(encoding="utf-8"))
