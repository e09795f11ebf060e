"""The README keeps its word: its code runs, its table is generated, its commands exist."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("code", BLOCKS, ids=[f"block{k}" for k in range(len(BLOCKS))])
def test_code_runs(code):
    scope = {}
    exec(code, scope)
    if "nan everywhere" in code:
        assert scope["A"].grad.isnan().all()


def test_tables_are_up_to_date():
    tool = runpy.run_path(str(ROOT / "scripts" / "readme_tables.py"))
    assert tool["with_tables"](README) == README
    assert all(f"<!-- {name}: begin" in README for name in tool["TABLES"])


def test_commands_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    commands = re.findall(r"^make (\w+)", README, re.MULTILINE)
    assert commands == ["demo", "test"]
    assert all(re.search(rf"^{command}:", makefile, re.MULTILINE) for command in commands)


@pytest.mark.parametrize("script", ["readme.py"])
def test_example_runs(script):
    result = subprocess.run(
        [sys.executable, str(ROOT / "examples" / script)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "exact" in result.stdout


def test_import_computes_nothing():
    code = "import torch; before = torch.get_num_threads(); import rootpool.linalg, threading;"
    code += "assert threading.active_count() == 1 and torch.get_num_threads() == before"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
