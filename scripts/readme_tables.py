"""Write the table of gradient rules into the README, from their docstrings.

python scripts/readme_tables.py           rewrites README.md
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from rootpool.linalg import RULES

README = Path(__file__).parents[1] / "README.md"
MARKED = re.compile(r"(<!-- rules: begin[^\n]*-->\n).*?(<!-- rules: end -->)", re.DOTALL)


def table() -> str:
    """One row a rule: its name, its value with the defaults, and what it does at ties."""
    lines = ["| `rule=` | the same as | at a tie `lam_i == lam_j`, i > j |", "|---|---|---|"]
    for name, rule in RULES.items():
        (ties,) = re.findall(r"Ties: ([^.,]*)", " ".join(inspect.getdoc(rule).split()))
        lines.append(f"| `{name}` | `{rule()!r}` | {ties.replace('``', '`')} |")
    return "\n".join(lines) + "\n"


def with_table(text: str) -> str:
    """``text`` with the table between the marks."""
    return MARKED.sub(lambda match: match[1] + table() + match[2], text)


if __name__ == "__main__":
    README.write_text(with_table(README.read_text(encoding="utf-8")), encoding="utf-8")
