"""CONTRIBUTING and ARCHITECTURE keep their word: their code runs, and what they name exists."""

import re
from pathlib import Path

import pytest
import tomllib

ROOT = Path(__file__).parents[2]
PAGES = {
    name: (ROOT / f"{name}.md").read_text(encoding="utf-8")
    for name in ("CONTRIBUTING", "ARCHITECTURE")
}
TEXT = PAGES["CONTRIBUTING"]
QUOTED = re.findall(r"^<!-- from (\S+) -->\n```\w+\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
FOLDERS = "src|studies|tests|docs|scripts|benchmarks|examples|\\.ci"


@pytest.mark.parametrize(("path", "code"), QUOTED, ids=[path for path, _ in QUOTED])
def test_example_is_in_its_file(path, code):
    assert code in (ROOT / path).read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", ["gradient rule", "pooling method", "data set", "entry", "recipe"])
def test_each_addition_has_an_example(kind):
    (section,) = re.findall(
        rf"^### [^\n]*{kind}[^\n]*\n(.*?)(?=^##)", TEXT, re.MULTILINE | re.DOTALL
    )
    assert "<!-- from tests/" in section


@pytest.mark.parametrize("page", PAGES)
def test_paths_and_targets_exist(page):
    named = re.findall(rf"[`(]((?:{FOLDERS})(?:/[\w./-]+)?)[`)]", PAGES[page])
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"`make (\w+)", PAGES[page]))
    assert targets <= set(re.findall(r"^(\w+):", makefile, re.MULTILINE))


def test_rooms_are_the_layers_that_imports_obey():
    """In parentheses the contract names what may be absent."""
    rows = re.findall(r"^\| (`(?:studies|rootpool\.).*?) \|", PAGES["ARCHITECTURE"], re.MULTILINE)
    drawn = [set(re.findall(r"`([\w.]+)`", row)) for row in rows]
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    inside, on_top = settings["tool"]["importlinter"]["contracts"]
    assert on_top["layers"] == ["studies", "rootpool"]
    layers = [
        {f"rootpool.{name}" for name in layer.split(" | ") if not name.startswith("(")}
        for layer in inside["layers"]
    ]
    assert drawn == [{"studies"}, *layers]
