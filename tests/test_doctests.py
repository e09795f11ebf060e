"""The examples in docstrings give what they show.

Modules are found by their text and imported by their own test alone, so that collecting the tests of
`linalg` imports neither Lightning nor matplotlib.
"""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIGHT = ("rootpool.linalg", "rootpool.nn")  # with torch alone; the others import for seconds


def modules():
    for folder in (ROOT / "src", ROOT / "studies"):
        base = folder if folder.name == "src" else ROOT
        for path in sorted(folder.rglob("*.py")):
            if ">>> " in path.read_text(encoding="utf-8"):
                name = ".".join(path.relative_to(base).with_suffix("").parts)
                name = name.removesuffix(".__init__")
                heavy = not name.startswith(LIGHT)
                yield pytest.param(name, marks=[pytest.mark.slow] * heavy)


@pytest.mark.parametrize("name", list(modules()))
def test_examples(name):
    if not name.startswith(LIGHT):
        pytest.importorskip("lightning", reason="needs the extra train")
    report = []
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    runner = doctest.DocTestRunner(optionflags=flags)
    for example in doctest.DocTestFinder().find(import_module(name), name):
        runner.run(example, out=report.append)
    assert not report, "".join(report)
    assert runner.tries
