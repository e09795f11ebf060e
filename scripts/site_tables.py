"""Write the tables of the documentation that come from the code or from recorded results.

python scripts/site_tables.py
"""

from __future__ import annotations

import inspect
import itertools
import re
from pathlib import Path

from rootpool.files import write_atomically
from rootpool.linalg import RULES
from rootpool.nn import METHODS
from rootpool.train.data import LAYOUTS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
POOLING = ROOT / "benchmarks" / "results" / "pooling.md"
BIRDS = DOCS / "appendix" / "birds-poolings.md"
LAW = DOCS / "appendix" / "law.md"
# Ours in other precisions, and parts of ours, are in the appendix.
CONTESTANTS = {
    "shape (B, d, N)": "batch, channels, positions",
    "exact, per image": "`exact`",
    "paper's SVD-Pade": "paper's SVD-Pade",
    "Newton-Schulz, float32": "Newton-Schulz, float32",
    "torch eigh autograd": "torch eigh",
    "torch matrix_sqrth": "torch matrix_sqrth",
    "spd_learn": "spd_learn",
}
MEMORY = {
    "(B, d, N)": "batch, channels, positions",
    "rootpool exact": "`exact`",
    "paper's SVD-Pade": "paper's SVD-Pade",
    "Newton-Schulz, float32": "Newton-Schulz, float32",
    "torch eigh autograd": "torch eigh",
    "spd_learn": "spd_learn",
}
NETWORKS = {"model": "network", "pixels": "pixels", "positions": "positions"}
NETWORKS |= {"gap": "average pooling", "exact": "`exact`"}
HEADS = {"head": "head", "top-1, %": "top-1, % (± standard deviation)"}
AGAINST = {"against average of the last layer": "against the average (95 % interval)"}
AGAINST_WIDE = {"against average with as many parameters": "against the average (95 % interval)"}
SCALES = {
    "failed runs": "runs of the small network that fail",
    "at the two smallest scales": "\\(\\lambda_1\\) below 0.1",
    "at the two largest": "above 10",
    "p": "p",
}


def text(documented: object) -> str:
    """A docstring with one line per paragraph, its mathematics and code in Markdown."""
    paragraphs = (inspect.getdoc(documented) or "").split("\n\n")
    plain = "\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    return re.sub(r":math:`([^`]*)`", r"$\1$", plain).replace("``", "`")


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
        if method.__module__.startswith("studies."):
            continue  # registered by a study that was imported before
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


def columns(page: Path, names: dict[str, str], after: str = "") -> list[list[str]]:
    """The columns with these ``names``, under new ones, of the first table of a page after a line."""
    lines = page.read_text(encoding="utf-8").splitlines()
    start = next(k for k, line in enumerate(lines) if line.lstrip("# ").startswith(after))
    rows = itertools.dropwhile(lambda line: not line.startswith("|"), lines[start:])
    found = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in itertools.takewhile(lambda line: line.startswith("|"), rows)
    ]
    places = [found[0].index(name) for name in names]
    return [list(names.values()), *([row[k] for k in places] for row in found[2:])]


def markdown(rows: list[list[str]]) -> str:
    """A table: the first column to the left, numbers to the right."""
    rule = ["---", *["---:"] * (len(rows[0]) - 1)]
    return "".join(f"| {' | '.join(row)} |\n" for row in [rows[0], rule, *rows[1:]])


def speed() -> str:
    """Time of pooling, and of other implementations as multiples of it."""
    machine = POOLING.read_text(encoding="utf-8").splitlines()[0]
    return markdown(columns(POOLING, CONTESTANTS)) + f"\n({machine})\n"


def memory() -> str:
    """Peak memory of pooling and of other implementations."""
    return markdown(columns(POOLING, MEMORY, "Peak memory"))


def networks() -> str:
    """Time of a forward pass of whole networks with average and with covariance pooling."""
    return markdown(columns(POOLING.with_name("models.md"), NETWORKS, "Forward, time per image"))


def birds() -> str:
    """The main table of the bird experiment, without times and settings."""
    return markdown(columns(BIRDS, HEADS | AGAINST, "What a head is worth"))


def birds_poolings() -> str:
    """Poolings with equal numbers of parameters on the birds."""
    return markdown(columns(BIRDS, HEADS | AGAINST_WIDE, "Poolings of today"))


def law() -> str:
    """Failures on both sides of the threshold, by arm."""
    rows = columns(LAW, SCALES, "| failed runs | at")
    return markdown([row for row in rows if not row[0].startswith("all, ")])


TABLES = {
    DOCS / "guides" / "methods.md": {"rules": rules},
    DOCS / "guides" / "data.md": {"layouts": layouts},
    DOCS / "api" / "nn.md": {"methods": methods},
    DOCS / "results" / "speed.md": {"speed": speed, "memory": memory, "networks": networks},
    DOCS / "results" / "paper.md": {"law": law},
    DOCS / "results" / "birds.md": {
        "birds": birds,
        "birds-poolings": birds_poolings,
    },
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
        write_atomically(page, with_tables(page))
