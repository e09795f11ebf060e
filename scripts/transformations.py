"""Run every function under every transformation, and write the table into docs/api/transformations.md."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from transformations import FUNCTIONS, TRANSFORMATIONS, outcome  # noqa: E402

TEXT = """# Functions and transformations

A tick is a check that ran: derivatives against finite differences, the rest against the same function without
the transformation. A dash is a refusal with a clear error, which was seen, too. The tests run the same table
(`tests/transformations.py`); `python scripts/transformations.py` writes this page.

{table}

`jvp` is forward mode by `torch.func.jvp` and `torch.autograd.forward_ad`; `hessian` is
`torch.func.hessian`, and forward mode twice. `compile` is `torch.compile(fullgraph=True)`, forward and
backward; forward mode *inside* a compiled function is an error. Functions of two matrices are
differentiated in both. All checks but those of `float32`, `complex` and `autocast` are in float64. The
columns `float32` and `float64` compare gradients to 1e-4 and 1e-9.

The dashes:

{dashes}
"""


def main() -> None:
    lines = ["| | " + " | ".join(TRANSFORMATIONS) + " |", "|---|" + ":-:|" * len(TRANSFORMATIONS)]
    for name, row in FUNCTIONS.items():
        cells = ["✓" if outcome(row, name) else "–" for name in TRANSFORMATIONS]
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    reasons: dict[str, list[str]] = {}
    for name, row in FUNCTIONS.items():
        for transformation, refusal in row.refuses.items():
            reasons.setdefault(f"{transformation}: {refusal.reason}", []).append(f"`{name}`")
    dashes = "\n".join(f"- {reason} ({', '.join(names)})" for reason, names in reasons.items())
    page = TEXT.format(table="\n".join(lines), dashes=dashes)
    (ROOT / "docs" / "api" / "transformations.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
