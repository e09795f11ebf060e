"""One look at a page in a real browser."""

import re

import pytest

import browser
from sample_page import HOSTILE, full_page

# What a page would do if any of its scripts ran.
PROBE = '<script>document.title = "hacked"</script>'


@pytest.mark.slow
@pytest.mark.browser
def test_a_page_is_shown_and_nothing_in_it_runs(tmp_path):
    page = full_page().write(tmp_path / "page.html")
    page.write_text(page.read_text("utf-8").replace("</main>", PROBE + "</main>"), "utf-8")
    shown = browser.dom(page)
    assert "<title>Results &lt;script&gt;" in shown
    assert shown.count("<script") == 1  # the probe, which the page's policy kept from running
    pictures = re.findall(r'<svg class="plot"', shown)
    assert len(pictures) == sum(hasattr(block, "figure") for block in full_page().blocks)
    assert "window.hacked" in shown  # as text
    assert all(name.split("<")[0] in shown for name in HOSTILE)
