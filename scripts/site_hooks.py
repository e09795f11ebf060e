"""What MkDocs does to our pages besides its own work: tables and pictures from where they are measured.

``<!-- table: benchmarks/results/pooling.md: Peak memory -->`` in a page becomes the first table after the
line of that file that begins so, or the first of all without the second part. No number is copied by
hand. Files that pages show and that live outside ``docs`` are in ``OUTSIDE``.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
OUTSIDE = {"images/pooling.png": "benchmarks/results/pooling.png"}
MARK = re.compile(r"^<!-- table: ([^:\n]+?)(?:: (.+?))? -->$", re.MULTILINE)


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Add the pictures that live elsewhere."""
    for place, source in OUTSIDE.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put in the tables."""
    return MARK.sub(lambda match: table(match[1], match[2] or ""), markdown)


def table(path: str, after: str = "") -> str:
    """The first table of a Markdown file of the repository after a line that begins with ``after``."""
    lines = iter((ROOT / path).read_text(encoding="utf-8").splitlines())
    if after and not any(line.lstrip("# ").startswith(after) for line in lines):
        raise PluginError(f"{path} has no line that begins with {after!r}")
    rows = itertools.dropwhile(lambda line: not line.startswith("|"), lines)
    found = "\n".join(itertools.takewhile(lambda line: line.startswith("|"), rows))
    if not found:
        raise PluginError(f"{path} has no table after {after!r}")
    return found
