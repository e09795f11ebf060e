"""The README keeps its word: its code runs, its tables are generated, its commands exist."""

import re
import runpy
from pathlib import Path

import pytest

from pages import blocks

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
TEXT = README.read_text(encoding="utf-8")
CODE = [block.code for block in blocks(README) if block.language == "python"]


@pytest.mark.parametrize("code", CODE, ids=[code.splitlines()[1] for code in CODE])
def test_code_runs(code):
    scope = {}
    exec(code, scope)
    if "nan everywhere" in code:
        assert scope["A"].grad.isnan().all()


TOOL = runpy.run_path(str(ROOT / "scripts" / "site_tables.py"))


@pytest.mark.parametrize("page", TOOL["TABLES"], ids=lambda page: page.name)
def test_tables_are_up_to_date(page):
    text = page.read_text(encoding="utf-8")
    assert TOOL["with_tables"](page) == text, "run python scripts/site_tables.py"
    assert all(f"<!-- {name}: begin" in text for name in TOOL["TABLES"][page])


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)|`make (\w+)", TEXT, re.MULTILINE):
        assert re.search(rf"^{''.join(target)}:", makefile, re.MULTILINE), target
