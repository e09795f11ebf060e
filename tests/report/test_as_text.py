"""Pages as HTML and as Markdown: what the blocks write, and what becomes of hostile text."""

import html.parser
import os
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from matplotlib.figure import Figure
from PIL import Image

from rootpool.report import (
    Code,
    Details,
    Facts,
    Heading,
    Link,
    List,
    Mono,
    Note,
    Number,
    Page,
    Paragraph,
    Photo,
    Picture,
    Strong,
    Table,
)
from rootpool.report.plots import confusion_pairs, learning_curves
from rootpool.report.text import escape_markdown, to_html
from sample_page import CURVES, HOSTILE, foreign_figure, full_page


class Reader(html.parser.HTMLParser):
    """The words of a piece of HTML, and its tags."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.words, self.tags = [], []
        self.feed(text)
        self.close()

    def handle_data(self, data):
        self.words.append(data)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)


# Controls and lone surrogates are in no Markdown document.
readable = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]))
markdown = MarkdownIt("commonmark").enable(["table", "strikethrough"])


@given(readable)
def test_html_shows_any_text_as_it_is(text):
    shown = Reader(to_html((text, Strong(text), Mono(text))))
    assert "".join(shown.words) == text * 3
    assert shown.tags == ["strong", "code"]


@given(readable)
def test_markdown_shows_any_text_as_it_is(text):
    shown = Reader(markdown.render("x " + escape_markdown(text) + " x"))
    assert shown.tags == ["p"]
    assert "".join(shown.words).split() == f"x {text} x".split()


@given(readable)
def test_markdown_shows_any_text_at_the_start_of_a_line(text):
    shown = Reader(markdown.render(Paragraph(text).markdown(None)))
    assert shown.tags == (["p"] if text.strip() else [])
    assert "".join(shown.words).split() == text.split()


@given(readable)
def test_a_markdown_table_holds_any_text(text):
    table = Table(["a", "b"], [[text, Mono(text)], [Strong(text), 1]])
    shown = Reader(markdown.render(table.markdown(None)))
    assert shown.tags.count("td") == 4
    assert "a" not in shown.tags
    assert "".join("".join(shown.words).split()).count("".join(text.split())) >= 3


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_of_every_block_is_inert(text):
    page = Page(text, lead=text, footer=text)
    page.add(
        Heading(text), Note(text), List([text]), Facts({text: text}), Code(text + "\n```\n~~~")
    )
    page.add(Details(text, [Paragraph(text)]), Paragraph(Link(text, "a b(c)")))
    tokens = markdown.parse(page.markdown())
    raw = [token.content for token in tokens if token.type == "html_block"]
    inline = [child for token in tokens for child in token.children or ()]
    assert [child for child in inline if child.type == "html_inline"] == []
    assert [Reader(block).tags for block in raw] == [["details", "summary"], []]


def test_the_same_page_is_the_same_bytes():
    def page():
        return Page("x", blocks=[Picture.of(learning_curves, CURVES[:24], alt="x")])

    assert page().html() == page().html()


def test_no_part_of_a_page_is_elsewhere():
    text = full_page().html()
    assert not re.search(
        r"""(?:src|href)\s*=\s*["']?(?:https?:)?//|url\(["']?(?:https?:)?//|@import""", text
    )


def test_contents_are_listed_when_there_are_several_sections():
    headings = [Heading(f"Part {i}") for i in range(4)] + [Heading("detail", 3)]
    assert "<nav" not in Page("x", blocks=headings[:3]).html()
    page = Page("x", blocks=headings).html()
    assert re.findall(r'<li><a href="#(part-\d)">', page) == [
        "part-0",
        "part-1",
        "part-2",
        "part-3",
    ]


def test_a_table_as_markdown():
    table = Table(
        ["method", "error", "n"],
        [["a|b", Number(2.0, 0.5), 3], ["c", Number(1.0, unit="%"), None]],
        caption="Errors",
        best={"error": "lowest"},
    )
    expected = """\
Errors

| method | error | n |
| --- | ---: | ---: |
| a\\|b | 2.00 ± 0.50 | 3 |
| c | **1.00 %** | – |"""
    assert unicodedata.normalize("NFKC", table.markdown(None)) == expected


@pytest.mark.parametrize(
    ("cells", "kind", "bold"),
    [
        ([1.0, 2.0, 1.0], "lowest", [True, False, True]),
        ([1.0, 2.0, 1.0], "highest", [False, True, False]),
        ([Number(1.001, 9.0), Number(1.004), Number(1.01)], "lowest", [True, True, False]),
        ([float("nan"), 2.0, 3.0], "lowest", [False, True, False]),
        ([float("-inf"), 2.0, None], "lowest", [False, False, False]),  # one number is not a best
        (["1", "2", "3"], "lowest", [False, False, False]),
    ],
)
def test_the_best_of_a_column(cells, kind, bold):
    rows = (
        Table(["x"], [[cell] for cell in cells], best={"x": kind}).markdown(None).splitlines()[2:]
    )
    assert ["**" in row for row in rows] == bold


def test_numbers_that_are_none_say_so():
    texts = [Number(value).text for value in (float("nan"), float("inf"), float("-inf"))]
    assert texts == ["not a number", "∞", "−∞"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Table(["a"], [["b", "c"]]), r"a row has 2 cells for 1 headers: \['b', 'c'\]"),
        (lambda: Table(["a"], [], best={"z": "lowest"}), "best names z; the headers are a"),
        (lambda: Picture(Figure(), " "), "Picture needs alt text"),
        (lambda: Photo(Image.new("L", (1, 1)), ""), "Photo needs alt text"),
        (lambda: Note("x", "maybe"), "Note.tone is one of plain, yes, no, unclear, got 'maybe'"),
        (lambda: Link("x", " JavaScript:alert(1)"), "http, https, mailto or a relative address"),
    ],
)
def test_bad_blocks(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_an_empty_table():
    table = Table(["a", "b"], [])
    assert table.markdown(None) == "| a | b |\n| --- | --- |"


def test_a_picture_leaves_its_figure_as_it_was(tmp_path):
    figure = foreign_figure()
    Page("x", blocks=[Picture(figure, "x")]).write(tmp_path / "page.html")
    assert figure.get_size_inches() == pytest.approx([6, 3])


def test_a_failed_write_keeps_the_old_page(tmp_path, monkeypatch):
    path = Page("old").write(tmp_path / "new folder" / "page.html")
    old = path.read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        Page("new").write(path)
    assert path.read_bytes() == old
    assert [file.name for file in path.parent.iterdir()] == ["page.html"]


def test_names_of_files_in_unknown_encodings(tmp_path):
    name = os.fsdecode(b"caf\xe9.jpg")
    path = Page(name, blocks=[Paragraph(name)]).write(tmp_path / "page.html")
    assert "caf?.jpg" in path.read_text("utf-8")
    figure = confusion_pairs([{"true": name, "predicted": "b", "count": 1}])
    assert "caf" in Page("x", blocks=[Picture(figure, name)]).html()


def test_the_style_sheet_is_part_of_the_package():
    assert "<style>\n:root{" in Page("x").html()
