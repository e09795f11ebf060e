"""Draw the contact sheet of photo-patches and write the table of its sources.

python scripts/photo_patches.py           rewrites docs/photo-patches.md and its picture
"""

from __future__ import annotations

import re
from pathlib import Path

from rootpool.train.data import PHOTOGRAPHS, contact_sheet

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "photo-patches.md"


def sources() -> str:
    """One row a photograph."""
    lines = ["| class | shows | from | by | licence |", "|---|---|---|---|---|"]
    for photo in PHOTOGRAPHS:
        cells = (photo.name, photo.shows, photo.package, photo.credit, photo.licence)
        lines.append("| " + " | ".join(_linked(cell) for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _linked(text: str) -> str:
    return re.sub(r"(https?://[^\s;,)]+)", r"<\1>", text)


def with_sources(text: str) -> str:
    """``text`` with the table between its marks."""
    marked = re.compile(r"(<!-- sources: begin[^\n]*-->\n).*?(<!-- sources: end -->)", re.DOTALL)
    return marked.sub(lambda match: match[1] + sources() + match[2], text)


if __name__ == "__main__":
    PAGE.write_text(with_sources(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    (DOCS / "images").mkdir(exist_ok=True)
    contact_sheet(DOCS / "images" / "photo-patches.png")
