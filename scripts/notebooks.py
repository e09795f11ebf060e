"""Make notebooks of the tutorials: text, code with the outputs that the tests compare, commands.

python scripts/notebooks.py
"""

from __future__ import annotations

import doctest
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rootpool.files import write_atomically

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from pages import BLOCK  # noqa: E402

TUTORIALS, EXAMPLES = ROOT / "docs" / "tutorials", ROOT / "examples"
NOTEBOOKS = {EXAMPLES / f"{name}.ipynb": TUTORIALS / f"{name}.md" for name in ("nans", "photos")}
Cell = dict[str, Any]


def notebook(page: Path) -> str:
    """The notebook of a page, as JSON that is the same every time."""
    cells = list(_cells(page.read_text(encoding="utf-8")))
    for k, cell in enumerate(cells):
        cell["id"] = f"cell-{k}"
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    content = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4}
    return json.dumps({**content, "nbformat_minor": 5}, indent=1, ensure_ascii=False) + "\n"


def _cells(text: str) -> Iterator[Cell]:
    end = 0
    for block in BLOCK.finditer(text):
        runs = block["title"] or block["language"] in ("python", "pycon", "sh")
        if block["reason"] or not runs or block["code"].startswith("pip "):
            continue  # stays in the text
        yield from _text(text[end : block.start()])
        end = block.end()
        if block["title"]:
            yield _code(f"%%writefile {block['title']}\n{block['code']}")
        elif block["language"] == "sh":
            lines = block["code"].replace("\\\n", " ").splitlines()
            yield _code("\n".join(line if line.startswith("#") else f"!{line}" for line in lines))
        elif block["language"] == "python":
            yield _code(block["code"])
        else:
            yield from _examples(block["code"])
    yield from _text(text[end:])


def _text(text: str) -> Iterator[Cell]:
    """Formulas as notebooks have them, and no links to pages that are not there."""
    text = re.sub(r"\\\((.+?)\\\)", r"$\1$", text, flags=re.DOTALL)
    text = re.sub(r"\\\[(.+?)\\\]", r"$$\1$$", text, flags=re.DOTALL)
    text = re.sub(r"!?\[([^\]]+)\]\((?!http)[^)]+\)", r"\1", text).strip()
    if text:
        yield {"cell_type": "markdown", "metadata": {}, "source": text}


def _examples(code: str) -> Iterator[Cell]:
    """A cell ends with each value that the page shows."""
    source = ""
    for example in doctest.DocTestParser().get_examples(code):
        source += example.source
        if example.want:
            yield _code(source, example.want)
            source = ""
    if source:
        yield _code(source)


def _code(source: str, shown: str = "") -> Cell:
    data = {"output_type": "display_data", "metadata": {}, "data": {"text/plain": shown.rstrip()}}
    outputs = [data] if shown else []
    tags = {"tags": ["raises-exception"]} if shown.startswith("Traceback") else {}
    cell = {"cell_type": "code", "metadata": tags, "execution_count": None, "outputs": outputs}
    return {**cell, "source": source.rstrip()}


if __name__ == "__main__":
    for target, page in NOTEBOOKS.items():
        write_atomically(target, notebook(page))
        print(target.relative_to(ROOT))
