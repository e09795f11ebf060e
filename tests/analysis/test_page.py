"""Pages in a real browser, and the same blocks in Markdown."""

import html.parser
import os
import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from matplotlib.figure import Figure
from PIL import Image

import browser
from rootpool.analysis.page import (
    Code,
    Details,
    Facts,
    Gallery,
    Heading,
    Link,
    List,
    Method,
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
from rootpool.analysis.plots import (
    confusion_pairs,
    dots_with_spread,
    learning_curve_panels,
    learning_curves,
    paired_differences,
    speed_bars,
)
from rootpool.analysis.text import escape_markdown, to_html
from rootpool.nn import METHODS

HOSTILE = (
    "<script>window.hacked = 1</script>",
    '"><img src=x onerror="window.hacked = 1">',
    "</title></style></svg><svg onload='window.hacked = 1'>",
    "<!-- --> ]]> &lt;b&gt; $x_1$ `a` | *b* {0}",
    "_hidden",
    "名前 \N{BIRD} \u202e\x07",
    "a" * 90,
)

CURVES = [
    {
        "run": f"{method}, {protocol}",
        "method": method,
        "protocol": protocol,
        "seed": seed,
        "epoch": epoch,
        "val_error": 10 + seed + 50 / (1 + epoch) + (protocol == "hybrid"),
    }
    for method in [*list(METHODS)[:2], *HOSTILE]
    for protocol in ("standalone", "hybrid")
    for seed in (0, 1)
    for epoch in (0, 1, 2)
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
        page.add(Heading(name), Paragraph((name, Strong(name), Mono(name), Method(name))))
        page.add(Note(name, "no"), List([name]), Code(name), Code(name * 3))
        page.add(Details(name, [Heading(name, 3), Paragraph(Link(name, "#" + name))]))
    page.add(
        Table(
            [*HOSTILE, "error, %"],
            [[*HOSTILE, Number(12.0 - i, 0.5)] for i in range(3)],
            caption=HOSTILE[1],
            best={"error, %": "lowest"},
        ),
        Gallery([Photo(Image.new("RGB", (40, 30), "red"), name, [name] * 2) for name in HOSTILE]),
    )
    rows = [{"label": name, "milliseconds": 1.0 + i} for i, name in enumerate(HOSTILE)]
    differences = [{"label": name, "mean": 1, "low": 0, "high": 2} for name in HOSTILE]
    pairs = [{"true": name, "predicted": name[:40], "count": 3} for name in HOSTILE]
    few = [r for r in CURVES if r["method"] in (*METHODS, *HOSTILE[:4])]
    page.add(
        Picture.of(learning_curves, few, switch_epoch=2, decay_epochs=(1,), alt=HOSTILE[0]),
        Picture.of(learning_curve_panels, CURVES, alt=HOSTILE[1], caption=HOSTILE[1]),
        Picture.of(dots_with_spread, CURVES, alt="dots"),
        Picture.of(paired_differences, differences, alt="differences"),
        Picture.of(speed_bars, rows, alt="speeds"),
        Picture.of(confusion_pairs, pairs, alt="confusions"),
        Picture(foreign_figure(), alt="a figure of somebody else"),
    )
    return page


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return full_page().write(tmp_path_factory.mktemp("page") / "page.html")


@pytest.fixture(scope="module")
def chromium():
    with browser.start() as running:
        yield running


sizes = pytest.mark.parametrize("width", [320, 360, 800, 1400])
themes = pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])


# --------------------------------------------------------------------------------------------------
# In the browser


@sizes
def test_the_page_never_scrolls_sideways(chromium, path, width):
    chromium.open(path, width)
    assert chromium.evaluate("innerWidth") == width
    assert chromium.evaluate("document.documentElement.scrollWidth") <= width
    boxes = "[...document.querySelectorAll('.scroll')].map(s => [s.scrollWidth, s.clientWidth])"
    [(content, box)] = chromium.evaluate(boxes)
    assert content > box, "this table is wider than the page and scrolls in its own box"
    captions = (
        "[...document.querySelectorAll('figcaption')].map(c => c.getBoundingClientRect().right)"
    )
    assert max(chromium.evaluate(captions)) <= width, "but its caption does not"


@sizes
def test_the_text_of_pictures_stays_on_the_page(chromium, path, width):
    chromium.open(path, width)
    spilling = chromium.evaluate(
        """[...document.querySelectorAll('svg.plot text')].filter(t => t.getClientRects().length)
            .filter(t => t.getBoundingClientRect().right > innerWidth + 1
                      || t.getBoundingClientRect().left < -1)
            .map(t => t.textContent)"""
    )
    assert spilling == []


@themes
def test_nothing_is_loaded_and_nothing_complains(chromium, path, dark):
    chromium.open(path, dark=dark)
    assert chromium.complaints == []
    assert {url.split(":")[0] for url in chromium.requests} <= {"file", "data"}
    assert [url for url in chromium.requests if url.startswith("file")] == [path.as_uri()]


def test_hostile_names_are_shown_and_do_nothing(chromium, path):
    chromium.open(path)
    assert chromium.evaluate("window.hacked") is None
    assert chromium.evaluate("document.scripts.length") == 0
    assert chromium.evaluate("document.querySelectorAll('[onerror],[onload],[src=x]').length") == 0
    assert chromium.evaluate("document.title") == "Results " + HOSTILE[0]
    everything = chromium.evaluate("document.body.textContent")
    assert all(everything.count(name) >= 8 for name in HOSTILE)


@dataclass(frozen=True)
class Unescaped:
    def html(self, rendering):
        return "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"

    def markdown(self, rendering):
        return ""


def test_a_block_that_forgets_to_escape_does_no_harm_either(chromium, tmp_path):
    chromium.open(Page("x", blocks=[Unescaped()]).write(tmp_path / "page.html"))
    assert chromium.evaluate("document.scripts.length") == 1
    assert chromium.evaluate("window.hacked") is None
    assert any("Content Security Policy" in complaint for complaint in chromium.complaints)


@pytest.mark.parametrize(("width", "shown"), [(360, "narrow"), (800, "wide"), (1400, "wide")])
def test_one_drawing_of_each_picture_is_shown_and_described(chromium, path, width, shown):
    chromium.open(path, width)
    figures = chromium.evaluate(
        """[...document.querySelectorAll('figure:has(svg)')].map(f =>
            [...f.querySelectorAll('svg.plot')].filter(s => s.getClientRects().length)
            .map(s => [s.getAttribute('class'), s.getAttribute('role'), s.ariaLabel]))"""
    )
    assert len(figures) == 7
    for drawings in figures:
        [(css_class, role, label)] = drawings
        assert css_class == f"plot {shown}"
        assert role == "img"
        assert label
    assert figures[0][0][2] == HOSTILE[0]
    assert chromium.evaluate("[...document.images].map(i => i.alt)") == list(HOSTILE)


def test_names_are_unique_and_references_lead_somewhere(chromium, path):
    chromium.open(path)
    names = chromium.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(names) > 100
    assert len(set(names)) == len(names)
    text = path.read_text("utf-8")
    inside = chromium.evaluate(
        "[...document.querySelectorAll('nav a, use')].map(e => e.href.baseVal ?? e.hash)"
    )
    clips = re.findall(r'clip-path="url\(#([^)]*)\)"', text)
    assert inside
    assert clips
    assert {reference.removeprefix("#") for reference in inside} | set(clips) <= set(names)


# Pairs of text and ground as they end up on the screen, whatever CSS mixed them.
COLOURS = """(() => {
    const canvas = new OffscreenCanvas(1, 1), pen = canvas.getContext('2d', {willReadFrequently: true});
    const over = (...layers) => {
        pen.clearRect(0, 0, 1, 1);
        for (const layer of layers) { pen.fillStyle = layer; pen.fillRect(0, 0, 1, 1); }
        return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    const found = new Map();
    for (const e of document.querySelectorAll('body *')) {
        const own = [...e.childNodes].some(n => n.nodeType == 3 && n.data.trim());
        if (!own || !e.getClientRects().length) continue;
        const grounds = [];
        for (let p = e; p; p = p.parentElement) grounds.unshift(getComputedStyle(p).backgroundColor);
        const style = getComputedStyle(e);
        const ink = e.closest('svg') ? style.fill : style.color;
        const pair = [over(...grounds, ink), over(...grounds)];
        found.set(JSON.stringify(pair), [...pair, e.tagName + '.' + e.className]);
    }
    return [...found.values()];
})()"""


def contrast(one, other):
    def luminance(rgb):
        part = [c / 255 for c in rgb]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in part]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


@themes
def test_all_text_stands_out_from_its_ground(chromium, path, dark):
    chromium.open(path, dark=dark)
    chromium.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    pairs = chromium.evaluate(COLOURS)
    assert len(pairs) > 6
    for ink, ground, where in pairs:
        assert contrast(ink, ground) >= 4.5, where
    ground = chromium.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(20, 23, 27)" if dark else "rgb(255, 255, 255)")


def test_methods_have_their_dark_colours_in_the_dark(chromium, tmp_path):
    few = [dict(r, run="x", method="svd-pade") for r in CURVES[:12]]
    page = Page(
        "x", blocks=[Picture.of(learning_curves, few, alt="x"), Paragraph(Method("svd-pade"))]
    )
    path = page.write(tmp_path / "page.html")
    stroke = (
        """[...document.querySelectorAll('svg.wide path')].map(p => getComputedStyle(p).stroke)"""
    )
    dot = "getComputedStyle(document.querySelector('.method'), '::before').backgroundColor"
    for dark, colour in ((False, "rgb(186, 23, 67)"), (True, "rgb(202, 46, 89)")):
        chromium.open(path, dark=dark)
        assert colour in chromium.evaluate(stroke)
        assert chromium.evaluate(dot) == colour


def test_paper_is_always_white(chromium, path):
    chromium.open(path, 700, dark=True, media="print")
    assert chromium.evaluate("getComputedStyle(document.body).color") == "rgb(29, 33, 38)"
    shown = chromium.evaluate(
        "[...document.querySelectorAll('svg.plot')].filter(s => s.getClientRects().length).length"
    )
    assert shown == 7


def test_a_table_sets_numbers_right_and_the_best_in_bold(chromium, path):
    chromium.open(path)
    cells = "[...document.querySelectorAll('td:last-child')]"
    assert chromium.evaluate(f"{cells}.map(c => getComputedStyle(c).textAlign)") == ["right"] * 3
    assert chromium.evaluate(f"{cells}.map(c => !!c.querySelector('.best'))") == [
        False,
        False,
        True,
    ]
    first = "getComputedStyle(document.querySelector('tbody th')).textAlign"
    assert chromium.evaluate(first) == "left"


def test_pictures_beside_markdown_follow_the_theme(chromium, tmp_path):
    page = Page("x", blocks=[Picture(foreign_figure(), "a <figure>", caption="below")])
    report = page.write_markdown(tmp_path / "out" / "report.md")
    assert report.read_text() == "# x\n\n![a &lt;figure>](report-pictures/picture.svg)\n\nbelow\n"
    picture = tmp_path / "out" / "report-pictures" / "picture.svg"
    for dark, paper in ((False, "rgb(255, 255, 255)"), (True, "rgb(20, 23, 27)")):
        chromium.open(picture, dark=dark)
        assert chromium.complaints == []
        fill = "getComputedStyle(document.querySelector('#p-patch_1 path')).fill"
        assert chromium.evaluate(fill) == paper


def test_without_a_browser_tests_skip_and_say_why(monkeypatch):
    monkeypatch.setattr(browser.shutil, "which", lambda name: None)
    with (
        pytest.raises(pytest.skip.Exception, match=r"no Chromium .*apt-get install chromium"),
        browser.start(),
    ):
        pass


# --------------------------------------------------------------------------------------------------
# As text


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


def test_no_part_of_a_page_is_elsewhere(path):
    text = path.read_text("utf-8")
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
    assert (Path(browser.__file__).parents[1] / "src/rootpool/analysis/page.css").is_file()
    assert "<style>\n:root{" in Page("x").html()
