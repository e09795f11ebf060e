"""Write the tables of README.md and docs/data.md, from the code and from recorded results.

python scripts/readme_tables.py
"""

from __future__ import annotations

import inspect
import itertools
import re
from pathlib import Path

from rootpool.linalg import RULES
from rootpool.nn import METHODS
from rootpool.train.data import LAYOUTS

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
DATA = ROOT / "docs" / "data.md"
SPEED = ROOT / "benchmarks" / "results" / "pooling.md"
BIRDS = ROOT / "docs" / "birds.md"


def text(documented: object) -> str:
    """A docstring with one line per paragraph, its mathematics and code in Markdown."""
    paragraphs = (inspect.getdoc(documented) or "").split("\n\n")
    plain = "\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    return re.sub(r":math:`([^`]*)`", r"`\1`", plain).replace("``", "`")


def rules() -> str:
    """One row per rule: its name, its value with the defaults, what it does at ties, when to use it."""
    lines = [
        "| `rule=` | the same as | at a tie `lam_i == lam_j`, i > j | use |",
        "|---|---|---|---|",
    ]
    for name, rule in RULES.items():
        (ties,) = re.findall(r"Ties: ([^.,]*)", text(rule))
        (use,) = re.findall(r"Use: (.*)\.$", text(rule), re.MULTILINE)
        lines.append(f"| `{name}` | `{rule()!r}` | {ties} | {use} |")
    return "\n".join(lines) + "\n"


def methods() -> str:
    """One row per method of pooling: its name, its value with the defaults, what it is, when to use it."""
    lines = ["| `method=` | the same as | what it is | use |", "|---|---|---|---|"]
    for name, method in METHODS.items():
        if not method.__module__.startswith("rootpool."):
            continue  # registered by a study or a test
        what = text(method).splitlines()[0]
        lines.append(f"| `{name}` | `{method()!r}` | {what} | {method.use} |")
    return "\n".join(lines) + "\n"


def layouts() -> str:
    """One row per layout of a data set: what makes it recognisable, and what its reader says it is."""
    lines = ["| layout | the folder has | what it is |", "|---|---|---|"]
    for layout in LAYOUTS:
        parts = ", ".join(" or ".join(f"`{place}`" for place in places) for places in layout.parts)
        lines.append(f"| `{layout.name}` | {parts} | {text(layout.read).splitlines()[0]} |")
    return "\n".join(lines) + "\n"


def first_table(page: Path) -> list[str]:
    """The lines of the first table of a page."""
    lines = page.read_text(encoding="utf-8").splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith("|"))
    return list(itertools.takewhile(lambda line: line.startswith("|"), lines[start:]))


def speed() -> str:
    """The first table of the last run of the pooling benchmark."""
    machine = SPEED.read_text(encoding="utf-8").splitlines()[0]
    return f"{machine}:\n\n" + "\n".join(first_table(SPEED)) + "\n"


def birds() -> str:
    """The main table of the bird experiment, without the column of settings."""
    rows = [line.rsplit("|", 2)[0] + "|" for line in first_table(BIRDS)]
    return "\n".join(rows) + "\n"


TABLES = {
    README: {"rules": rules, "methods": methods, "speed": speed, "birds": birds},
    DATA: {"layouts": layouts},
}


def with_tables(page: Path) -> str:
    """The text of a page with each of its tables between its marks."""
    text = page.read_text(encoding="utf-8")
    for name, table in TABLES[page].items():
        marked = re.compile(rf"(<!-- {name}: begin[^\n]*-->\n).*?(<!-- {name}: end -->)", re.DOTALL)
        text = marked.sub(lambda match, table=table: match[1] + table() + match[2], text)
    return text


if __name__ == "__main__":
    for page in TABLES:
        page.write_text(with_tables(page), encoding="utf-8")
