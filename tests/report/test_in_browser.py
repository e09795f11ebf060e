"""Pages in a real browser."""

import re
from dataclasses import dataclass

import pytest

import browser
from rootpool.report import Method, Page, Paragraph, Picture
from rootpool.report.plots import learning_curves
from sample_page import CURVES, HOSTILE, foreign_figure, full_page


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return full_page().write(tmp_path_factory.mktemp("page") / "page.html")


@pytest.fixture(scope="module")
def chromium():
    with browser.start() as running:
        yield running


sizes = pytest.mark.parametrize("width", [320, 360, 800, 1400])
themes = pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])


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
