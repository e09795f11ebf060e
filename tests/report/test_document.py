"""Pages as Markdown, as HTML and in a browser: what the blocks write, and that hostile text stays text."""

import html.parser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from matplotlib.figure import Figure

import browser
from rootpool.report import (
    Code,
    Details,
    Facts,
    Heading,
    Link,
    Mono,
    Note,
    Number,
    Page,
    Paragraph,
    Picture,
    Rendering,
    Strong,
    Table,
)
from rootpool.report.plots import dots_with_spread, learning_curves, paired_differences, speed_bars
from rootpool.report.text import escape_markdown

HOSTILE = (
    "<script>window.hacked = 1</script>",
    '"><img src=x onerror="window.hacked = 1">',
    "</title></style></svg><svg onload='window.hacked = 1'>",
    "<!-- --> ]]> &lt;b&gt; $x_1$ `a` | *b* {0} {{ title }}",
    "[a](javascript:window.hacked=1)",
    "名前 \N{BIRD} \u202e",
    "a" * 90,
)

# A method that nobody knows, with a name that must be drawn letter by letter.
NAME = "$a_1$ <b>"
RUN = {"run": NAME, "method": "user's own", "epoch": 0, "val_error": 3.0}


# One of each kind.
PLOTS = [
    learning_curves([RUN]),
    learning_curves([RUN | {"method": NAME}], panels=True),
    dots_with_spread([RUN]),
    paired_differences([{"label": NAME, "mean": 0.5, "low": -1.0, "high": 2.0}]),
    speed_bars([{"label": NAME, "method": "user's own", "milliseconds": 1.0}]),
]


def foreign_figure():
    """A figure that is not one of ours, with colours and names as matplotlib gives them."""
    figure = Figure(figsize=(6, 3), layout="constrained")
    axes = figure.add_subplot()
    axes.plot([1, 2], [3, 4], "k")
    axes.set_title(HOSTILE[0])
    axes.imshow([[0, 1], [1, 0]], extent=(1, 2, 3, 4))
    return figure


def full_page():
    """Every block, with hostile text wherever text can be."""
    page = Page("Results " + HOSTILE[0], lead=HOSTILE[1], footer=HOSTILE[2])
    page.add(Facts({name: name for name in HOSTILE}))
    for name in HOSTILE:
        page.add(Heading(name), Paragraph((name, Strong(name), Mono(name))), Note(name, "no"))
        page.add(Code(name), Details(name, [Heading(name, 3), Paragraph(name)]))
        page.add(Paragraph(Link(name, "#" + name)), Paragraph(Link("link", name)))
    page.add(
        Table(
            [*HOSTILE, "error, %"],
            [[*HOSTILE, Number(12.0 - i, 0.5)] for i in range(3)],
            caption=HOSTILE[1],
            best={"error, %": "lowest"},
        ),
        Picture(foreign_figure(), alt=HOSTILE[0], caption=HOSTILE[1]),
    )
    page.add(*(Picture(figure, alt=HOSTILE[1]) for figure in PLOTS))
    return page


class Reader(html.parser.HTMLParser):
    """The words of a piece of HTML, its tags and their attributes."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.words, self.tags, self.attributes = [], [], []
        self.feed(text)
        self.close()

    def handle_data(self, data):
        self.words.append(data)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs


# Controls and lone surrogates are in no Markdown document.
readable = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]))
github = MarkdownIt("commonmark").enable(["table", "strikethrough"])  # raw HTML is on, as there


@given(readable)
def test_markdown_shows_any_text_as_it_is(text):
    inside = Reader(github.render("x " + escape_markdown(text) + " x"))
    assert inside.tags == ["p"]
    assert "".join(inside.words).split() == f"x {text} x".split()
    alone = Reader(github.render(Paragraph(text).markdown(Rendering())))
    assert alone.tags == (["p"] if text.strip() else [])
    assert "".join(alone.words).split() == text.split()


@given(readable)
def test_a_table_holds_any_text(text):
    table = Table(["a", "b"], [[text, Mono(text)], [Strong(text), 1]])
    shown = Reader(github.render(table.markdown(Rendering())))
    assert shown.tags.count("td") == 4
    assert "a" not in shown.tags
    assert "".join("".join(shown.words).split()).count("".join(text.split())) >= 3


@pytest.fixture(scope="module")
def page_html():
    return full_page().html()


def test_hostile_text_is_shown_and_never_becomes_markup(page_html):
    shown = Reader(page_html)
    assert not {"script", "img", "iframe", "object"} & set(shown.tags)
    assert not [name for name, _ in shown.attributes if name.startswith("on")]
    links = [value for name, value in shown.attributes if name == "href"]
    assert not [link for link in links if link.startswith("javascript:")]
    everything = "".join(shown.words)
    assert all(everything.count(name) >= 6 for name in HOSTILE)
    assert everything.count(NAME) >= 5  # once in each plot


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
    table = Table(["x"], [[cell] for cell in cells], best={"x": kind})
    rows = table.markdown(Rendering()).splitlines()[2:]
    assert ["**" in row for row in rows] == bold


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Table(["a"], [["b", "c"]]), r"a row has 2 cells for 1 headers: \['b', 'c'\]"),
        (lambda: Table(["a"], [], best={"z": "lowest"}), "best names z; the headers are a"),
        (lambda: Picture(Figure(), " "), "Picture needs alt text"),
        (lambda: Note("x", "maybe"), "Note.tone is one of plain, yes, no, unclear, got 'maybe'"),
    ],
)
def test_bad_blocks(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.slow
@pytest.mark.browser
def test_a_page_is_shown_in_a_browser_and_nothing_in_it_runs(page_html, tmp_path):
    page = tmp_path / "page.html"
    probe = '<script>document.title = "hacked"</script>'  # what a script of the page would do
    page.write_text(page_html.replace("</main>", probe + "</main>"), "utf-8")
    shown = browser.dom(page)
    assert "<title>Results &lt;script&gt;" in shown
    assert shown.count("<script") == 1  # the probe, which the page's policy kept from running
    assert shown.count('<svg class="plot"') == 1 + len(PLOTS)
    assert all(name.split("<")[0] in shown for name in HOSTILE)
