"""Run every function under every transformation, and write docs/api/transformations.md."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from transformations import FUNCTIONS, TRANSFORMATIONS, outcome  # noqa: E402

TEXT = """# What works with what

Every function below was run under every transformation: derivatives compared with finite differences, the
rest with the function itself. The tests run the same checks (`tests/transformations.py`);
`python scripts/transformations.py` writes this page.

**All of {transformations}** work for:

{whole}

These have exceptions. A dash means not supported; the call raises a clear error, which is tested:

{table}

{reasons}

`jvp` is forward mode by `torch.func.jvp` and `torch.autograd.forward_ad`; `hessian` is `torch.func.hessian`,
and forward mode twice. `compile` is `torch.compile(fullgraph=True)`, forward and backward; forward mode
*inside* a compiled function is an error. Functions of two matrices are differentiated in both. All checks
are in float64, except for the columns `float32`, `complex` and `autocast`; `float32` and `float64` compare
gradients to 1e-4 and 1e-9.
"""


def page() -> str:
    """The page, after all checks have been run."""
    works = {name: {t: outcome(row, t) for t in TRANSFORMATIONS} for name, row in FUNCTIONS.items()}
    partly = [name for name in FUNCTIONS if not all(works[name].values())]
    exceptions = [t for t in TRANSFORMATIONS if any(not works[name][t] for name in partly)]
    lines = ["| | " + " | ".join(exceptions) + " |", "|---|" + ":-:|" * len(exceptions)]
    for name in partly:
        cells = ["✓" if works[name][t] else "–" for t in exceptions]
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    reasons: dict[str, list[str]] = {}
    for row in FUNCTIONS.values():
        for transformation, refusal in row.refuses.items():
            names = reasons.setdefault(refusal.reason, [])
            if transformation not in names:
                names.append(transformation)
    return TEXT.format(
        transformations=", ".join(f"`{t}`" for t in TRANSFORMATIONS),
        whole=", ".join(f"`{name}`" for name in FUNCTIONS if name not in partly) + ".",
        table="\n".join(lines),
        reasons="\n".join(f"- {', '.join(names)}: {why}" for why, names in reasons.items()),
    )


if __name__ == "__main__":
    (ROOT / "docs" / "api" / "transformations.md").write_text(page(), encoding="utf-8")
