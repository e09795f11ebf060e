"""Every page of the cookbook runs as it stands, and prints what it shows."""

import contextlib
import doctest
import io
from pathlib import Path

import pytest

from pages import blocks

COOKBOOK = sorted((Path(__file__).parents[1] / "docs" / "cookbook").glob("*.md"))
CHECKER, FLAGS = doctest.OutputChecker(), doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def test_nine_problems():
    assert len(COOKBOOK) == 9


@pytest.mark.parametrize("page", COOKBOOK, ids=lambda page: page.stem)
def test_page_prints_what_it_shows(page):
    scope, printed, shown = {}, io.StringIO(), ""
    for block in blocks(page):
        if block.language == "python":
            with contextlib.redirect_stdout(printed):
                block.run(scope)
        elif block.language == "text":
            shown += block.code
    assert shown
    assert CHECKER.check_output(shown, printed.getvalue(), FLAGS), printed.getvalue()
