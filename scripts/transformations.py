"""Run every function under every transformation, and write the table into docs/transformations.md."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from transformations import FUNCTIONS, REFUSALS, TRANSFORMATIONS, Row  # noqa: E402

TEXT = """# Functions and transformations

A tick is a check that ran: derivatives against finite differences, the rest against the same function without
the transformation. A dash is a refusal with a clear error. The tests run the same table
(`tests/transformations.py`); `python scripts/transformations.py` writes this page.

{table}

`jvp` is forward mode by `torch.func.jvp` and `torch.autograd.forward_ad`; `hessian` is
`torch.func.hessian`, and forward mode twice. All checks but the last column are in float64. `compile` is
`torch.compile(fullgraph=True)`, forward and backward; forward mode *inside* a compiled function is an error.

The dashes:

{dashes}
"""


def cell(row: Row, name: str) -> str:
    """A tick if the check passes, a dash if the function refuses as it says."""
    try:
        TRANSFORMATIONS[name](row)
    except REFUSALS:
        if name not in row.refuses:
            raise
        return "–"
    return "✓"


def main() -> None:
    lines = ["| | " + " | ".join(TRANSFORMATIONS) + " |", "|---|" + ":-:|" * len(TRANSFORMATIONS)]
    for name, row in FUNCTIONS.items():
        cells = [cell(row, transformation) for transformation in TRANSFORMATIONS]
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    reasons: dict[str, list[str]] = {}
    for name, row in FUNCTIONS.items():
        for transformation, reason in row.refuses.items():
            reasons.setdefault(f"{transformation}: {reason}", []).append(f"`{name}`")
    dashes = "\n".join(f"- {reason} ({', '.join(names)})" for reason, names in reasons.items())
    page = TEXT.format(table="\n".join(lines), dashes=dashes)
    (ROOT / "docs" / "transformations.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
