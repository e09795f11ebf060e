"""Write the tables of the README: rules and methods from the code, speed from the last benchmark.

python scripts/readme_tables.py           rewrites README.md
"""

from __future__ import annotations

import inspect
import itertools
import re
from pathlib import Path

from rootpool.linalg import RULES
from rootpool.nn import BASELINES, METHODS

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
RESULT = ROOT / "benchmarks" / "results" / "pooling.md"


def first_line(documented: type) -> str:
    """The first line of a docstring, with its mathematics as plain text."""
    line = (inspect.getdoc(documented) or "").split("\n\n")[0]
    return re.sub(r":math:`([^`]*)`", r"`\1`", " ".join(line.split())).replace("``", "`")


def rules() -> str:
    """One row a rule: its name, its value with the defaults, and what it does at ties."""
    lines = ["| `rule=` | the same as | at a tie `lam_i == lam_j`, i > j |", "|---|---|---|"]
    for name, rule in RULES.items():
        (ties,) = re.findall(r"Ties: ([^.,]*)", " ".join((inspect.getdoc(rule) or "").split()))
        lines.append(f"| `{name}` | `{rule()!r}` | {ties.replace('``', '`')} |")
    return "\n".join(lines) + "\n"


def methods() -> str:
    """One row a method of pooling."""
    lines = ["| `method=` | the same as | |", "|---|---|---|"]
    for name, method in (METHODS | BASELINES).items():
        lines.append(f"| `{name}` | `{method()!r}` | {first_line(method)} |")
    return "\n".join(lines) + "\n"


def speed() -> str:
    """The first table of the last run of the pooling benchmark."""
    text = RESULT.read_text(encoding="utf-8")
    lines = text.splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith("|"))
    rows = itertools.takewhile(lambda line: line.startswith("|"), lines[start:])
    return f"{lines[0]}:\n\n" + "\n".join(rows) + "\n"


TABLES = {"rules": rules, "methods": methods, "speed": speed}


def with_tables(text: str) -> str:
    """``text`` with each table between its marks."""
    for name, table in TABLES.items():
        marked = re.compile(rf"(<!-- {name}: begin[^\n]*-->\n).*?(<!-- {name}: end -->)", re.DOTALL)
        text = marked.sub(lambda match, table=table: match[1] + table() + match[2], text)
    return text


if __name__ == "__main__":
    README.write_text(with_tables(README.read_text(encoding="utf-8")), encoding="utf-8")
