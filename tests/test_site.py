"""The site builds strictly, every link leads somewhere, and nothing is loaded from the network."""

import importlib.util
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CHECK = runpy.run_path(str(ROOT / "scripts" / "check_site.py"))
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("mkdocs") is None, reason="needs the extra docs"
)


@pytest.mark.slow
def test_the_site(tmp_path):
    site = tmp_path / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(site)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert built.returncode == 0, built.stderr
    assert list(CHECK["problems"](site)) == []
    included = {
        "appendix/benchmarks": "spd_learn",
        "results/speed": "positions",
        "cite": "cff-version",
        "changelog": "0.2.0",
        "api/nn": 'href="#rootpool.nn.CovariancePool"',
        "appendix/paper": "Record: the paper, all networks",
    }
    for page, text in included.items():
        assert text in (site / f"{page}.html").read_text(encoding="utf-8")
    reference = (site / "api" / "linalg.html").read_text(encoding="utf-8")
    assert ":math:" not in reference
    assert "<blockquote>" not in reference  # what >>> becomes by itself
    assert 'class="arithmatex"' in reference
    assert '#rootpool.linalg.matrix_function"' in reference
    found = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]
    places = {entry["location"].partition("/")[0] for entry in found}
    assert "cookbook" in places
    assert "appendix" not in places
    assert "\\|" not in (site / "appendix" / "reliability.html").read_text(encoding="utf-8")


def broken(tmp_path, body):
    (tmp_path / "index.html").write_text(body, encoding="utf-8")
    return list(CHECK["problems"](tmp_path))


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ('<a href="other.html">', "is not in the site"),
        ('<a href="#there">', "has no such anchor"),
        ('<a href="/absolute.html">', "leaves the folder"),
        ('<img src="picture.svg">', "is not in the site"),
        ('<script src="https://example.org/a.js"></script>', "is loaded from the network"),
    ],
)
def test_broken_reference_is_found(tmp_path, body, fault):
    (found,) = broken(tmp_path, body)
    assert fault in found


def test_whole_references_pass(tmp_path):
    (tmp_path / "style.css").write_text("a { background: url(picture.svg) }", encoding="utf-8")
    assert "picture.svg" in broken(tmp_path, '<link href="style.css">')[0]
    (tmp_path / "picture.svg").touch()
    assert broken(tmp_path, '<h1 id="top"></h1><a href="#top"><a href="https://a.org">') == []


def test_text_in_pictures_is_legible():
    """At 540 of their points, or at 385 where they fit on a phone, nothing is below 9 pixels."""
    pictures = list((ROOT / "docs").rglob("*-pictures/*.svg")) + list(
        (ROOT / "docs").glob("images/*")
    )
    for picture in pictures:
        svg = picture.read_text(encoding="utf-8")
        assert re.search(r'viewBox="0 0 (540|385)[ .]', svg), picture
        assert min(map(float, re.findall(r"font(?:-size)?:[^;]*?([\d.]+)px", svg))) >= 9, picture


def test_pictures_fit_both_colour_schemes():
    hooks = runpy.run_path(str(ROOT / "scripts" / "site_hooks.py"))
    drawn = hooks["for_both_schemes"](
        '<svg width="9"><g id="patch_1">\n<path d="M 0 0\nz\n" style="fill: #ffffff"/></g>'
        '<path style="fill: none; stroke: #1d2126"/></svg>'
    )
    assert 'style="fill: none"' in drawn
    assert "@media screen and (prefers-color-scheme:dark)" in drawn
    assert "[style*='stroke: #1d2126']{stroke:#e4e7eb!important}" in drawn
    assert hooks["for_both_schemes"](drawn) == drawn
