"""Documents and help texts stay short, in the words of the field, and their numbers come from records."""

import argparse
import re
from pathlib import Path

import pytest

from pages import BLOCK, blocks
from rootpool import cli

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if "appendix" not in page.parts]
GUIDES = [page for page in PAGES if page.parent != DOCS / "api"]
# What to write instead is in CONTRIBUTING.md.
AVOID = re.compile(
    r"in the place of|\bminiatures?\b|\btrainings\b|\bour records?\b|\bstands? beside\b"
    r"|\bbeside (?:it|them)\b|\bcompany\b|\bnobody has asked\b|, too\b[,.]|\bvalue of Newton-Schulz\b"
    r"|\b(?:in|of) our form\b|\bwhat (?:it|they) makes? of\b|\bthat of the\b|\bthose of the\b"
    r"|\bany (?:timm|torchvision|backbone)\b"  # some of torchvision's are not offered
)


def name(page):
    return page.relative_to(ROOT).as_posix()


def words(page):
    return len(page.read_text(encoding="utf-8").split())


def helps(parser):
    """The help of a parser and of everything below it."""
    yield parser.format_help()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from helps(below)


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=name)
def test_words_of_the_field(page):
    prose = " ".join(BLOCK.sub("", page.read_text(encoding="utf-8")).split())
    assert AVOID.findall(prose) == []


def test_words_of_the_field_in_help():
    assert AVOID.findall(" ".join(" ".join(helps(cli.build_parser())).split())) == []


def test_words_of_the_field_in_code():
    """In docstrings, messages and what studies print."""
    files = [file for room in ("src", "studies") for file in (ROOT / room).rglob("*.*")]
    texts = {name(f): f.read_text("utf-8") for f in files if f.suffix in (".py", ".yaml", ".html")}
    joined = {file: " ".join(text.split()) for file, text in texts.items()}
    assert {file: found for file, text in joined.items() if (found := AVOID.findall(text))} == {}


def test_word_list_names_what_the_test_finds():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert len(AVOID.findall(text[text.index("### Words") :])) >= 10


def test_readme_is_one_screen():
    readme = ROOT / "README.md"
    assert 700 <= words(readme) <= 900
    assert readme.stat().st_size <= 7000


@pytest.mark.parametrize("page", GUIDES, ids=name)
def test_page_is_short(page):
    limits = {
        "results/approximation.md": 800,
        "results/paper.md": 1200,
        "results/followups.md": 600,
    }
    most = 300 if page.parent.name == "cookbook" else 1500
    assert words(page) <= limits.get(page.relative_to(DOCS).as_posix(), most)


@pytest.mark.parametrize("page", GUIDES, ids=name)
def test_code_is_not_cut(page):
    """There are fewer columns next to a table of contents, which pages of the cookbook have not."""
    most = 100 if page.parent.name == "cookbook" else 86
    code = (line for block in blocks(page) for line in block.code.splitlines())
    assert [line for line in code if len(line) > most] == []


def test_site_is_short():
    assert sum(words(page) for page in GUIDES) <= 18_000


# The difference of two published numbers, and of two recorded ones.
DERIVED = {"approximation": {"0.82"}, "birds": {"5.25"}}
SOURCES = re.compile(r"<!-- numbers from: (.+) -->")
NUMBER = re.compile(r"(?<![\w.])\d+\.\d\d+(?:e[+-]?\d+)?(?![\w.]*\d)|\b\d+ of \d+\b")


@pytest.mark.parametrize("page", sorted((DOCS / "results").glob("*.md")), ids=name)
def test_numbers_come_from_records(page):
    """Numbers of two decimals and more, and counts, are in the records that the page names."""
    text = page.read_text(encoding="utf-8")
    written = re.sub(
        r"(<!-- ([\w-]+): begin.*?-->).*?(<!-- \2: end -->)", "", text, flags=re.DOTALL
    )
    sources = SOURCES.search(text)[1].split()
    known = "".join((ROOT / source).read_text(encoding="utf-8") for source in sources)
    unknown = {n for n in NUMBER.findall(written) if n not in known}
    assert unknown <= DERIVED.get(page.stem, set())
