"""Run every function under every transformation, and write the table into docs/transformations.md."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from transformations import (  # noqa: E402
    COMPILED,
    COMPILED_PAIRS,
    FUNCTIONS,
    PAIRS,
    TRANSFORMATIONS,
    outcome,
)

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

## Pairs

{pairs}

`checkpoint` is `torch.utils.checkpoint` in both of its modes; twice differentiated, `use_reentrant=False`,
because torch itself has no second derivative in the other. `autocast, gradgrad` runs forward and backward
passes inside autocast, and compares with float64. `autocast of half` has float16 and bfloat16 input, and
compares value and gradient with those of the same numbers in float64.

Compilation takes long, so of its pairs only one function of each kind is checked: the *first* call with
complex and with half-precision input, and calls after a change of the batch and of the size of the matrices.

{compiled}

## The dashes

{dashes}
"""


def table(functions: Iterable[str], columns: Iterable[str]) -> str:
    columns = list(columns)
    lines = ["| | " + " | ".join(columns) + " |", "|---|" + ":-:|" * len(columns)]
    for name in functions:
        cells = ["✓" if outcome(FUNCTIONS[name], column) else "–" for column in columns]
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    reasons: dict[str, list[str]] = {}
    for name, row in FUNCTIONS.items():
        for transformation, refusal in row.refuses.items():
            reasons.setdefault(f"{transformation}: {refusal.reason}", []).append(f"`{name}`")
    page = TEXT.format(
        table=table(FUNCTIONS, TRANSFORMATIONS),
        pairs=table(FUNCTIONS, PAIRS),
        compiled=table(COMPILED, COMPILED_PAIRS),
        dashes="\n".join(f"- {reason} ({', '.join(names)})" for reason, names in reasons.items()),
    )
    (ROOT / "docs" / "transformations.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
