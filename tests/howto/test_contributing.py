"""CONTRIBUTING shows code that the tests run: each of its examples stands in the file that it names."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
QUOTED = re.findall(r"^<!-- from (\S+) -->\n```\w+\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("path", "code"), QUOTED, ids=[path for path, _ in QUOTED])
def test_example_is_in_its_file(path, code):
    assert code in (ROOT / path).read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", ["gradient rule", "pooling method", "data set", "entry", "recipe"])
def test_each_addition_has_an_example(kind):
    (section,) = re.findall(
        rf"^### [^\n]*{kind}[^\n]*\n(.*?)(?=^##)", TEXT, re.MULTILINE | re.DOTALL
    )
    assert "<!-- from tests/" in section


def test_targets_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"`make (\w+)", TEXT)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
