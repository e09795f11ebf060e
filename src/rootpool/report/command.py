"""``rootpool report``: a page of some training runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .run_report import runs_page

__all__ = ["report"]


def report(runs: Sequence[str], output: str, title: str) -> int:
    """Write the report of the runs in these folders as HTML or Markdown, by the end of ``output``."""
    path = Path(output)
    if path.suffix not in (".html", ".md"):
        raise ValueError(f"--output must end in .html or .md, got {output}")
    page = runs_page(runs, title)
    written = page.write(path) if path.suffix == ".html" else page.write_markdown(path)
    print(f"report: {written}")
    return 0
