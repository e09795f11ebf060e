"""Writes docs/api/transformations.md; every cell is checked while it is written."""

import sys
from collections.abc import Iterable
from pathlib import Path

from rootpool.files import write_atomically

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

TEXT = """# What works with what

Every function below was run under every transformation: derivatives compared with finite differences, the
rest with the function itself. The tests run the same checks (`tests/transformations.py`);
`python scripts/transformations.py` writes this page.

**All of {transformations}** work for:

{whole}

These have exceptions. A dash means not supported; the call raises a clear error, which is tested:

{table}

`jvp` is forward mode by `torch.func.jvp` and `torch.autograd.forward_ad`; `hessian` is `torch.func.hessian`,
and forward mode twice. `compile` is `torch.compile(fullgraph=True)`, forward and backward; forward mode
*inside* a compiled function is an error. Functions of two matrices are differentiated in both. All checks
are in float64, except for the columns `float32`, `complex` and `autocast` (value and gradient, inside and
outside); `float32` and `float64` compare gradients to 1e-4 and 1e-9.

Where autocast is off around a function and on around `backward()`, which torch advises against, torch's own
derivatives multiply in half precision. They are part of `eigh`, `svd`, `newton_schulz`, `covariance` and of
functions that multiply matrices besides; other matrix functions, poolings and `eigvalsh` do without them.

`torch.jit.trace`, which torch deprecates, records values for the sizes of its example, and derivatives only
if the example needs a gradient; those of `bures_wasserstein`, `frechet_distance`, `powm(A, tensor)` and of
pooling by `polar` are an error, and so is all of `topk_eigh` and `topk_svd`.

## Pairs

**All of {pairs}** work for:

{whole_pairs}

With exceptions:

{table_of_pairs}

`jvp and vmap` is each of the two over the other. `checkpoint` is `torch.utils.checkpoint` in both of its
modes; twice differentiated, `use_reentrant=False`, because torch itself refuses a second derivative in the
other. `autocast, gradgrad` has autocast around both backward passes. `autocast of half` has float16 and
bfloat16 input, and compares value and gradient with the same numbers in float64.

Compilation takes long, so of its pairs only one function of each kind is checked: the *first* call with
complex and with half-precision input, and calls after a change of the batch and of the size of the matrices.

{compiled}

## Reasons

{reasons}
"""


def table(works: dict[str, dict[str, bool]], columns: Iterable[str]) -> str:
    columns = list(columns)
    lines = ["| | " + " | ".join(columns) + " |", "|---|" + ":-:|" * len(columns)]
    for name, cells in works.items():
        lines.append(
            f"| `{name}` | " + " | ".join("✓" if cells[c] else "–" for c in columns) + " |"
        )
    return "\n".join(lines)


def check(functions: Iterable[str], columns: Iterable[str]) -> dict[str, dict[str, bool]]:
    return {name: {c: outcome(FUNCTIONS[name], c) for c in columns} for name in functions}


def split(columns: Iterable[str]) -> tuple[str, str]:
    """The functions for which everything works, and a table of the others and of what does not."""
    works = check(FUNCTIONS, columns)
    partly = {name: cells for name, cells in works.items() if not all(cells.values())}
    exceptions = [c for c in columns if any(not cells[c] for cells in partly.values())]
    whole = ", ".join(f"`{name}`" for name in works if name not in partly) + "."
    return whole, table(partly, exceptions)


def page() -> str:
    """The page, after all checks have been run."""
    reasons: dict[str, list[str]] = {}
    for row in FUNCTIONS.values():
        for transformation, refusal in row.refuses.items():
            names = reasons.setdefault(refusal.reason, [])
            if transformation not in names:
                names.append(transformation)
    whole, exceptions = split(TRANSFORMATIONS)
    whole_pairs, exceptions_of_pairs = split(PAIRS)
    return TEXT.format(
        transformations=", ".join(f"`{t}`" for t in TRANSFORMATIONS),
        whole=whole,
        table=exceptions,
        pairs=", ".join(f"`{pair}`" for pair in PAIRS),
        whole_pairs=whole_pairs,
        table_of_pairs=exceptions_of_pairs,
        compiled=table(check(COMPILED, COMPILED_PAIRS), COMPILED_PAIRS),
        reasons="\n".join(f"- {', '.join(names)}: {why}" for why, names in reasons.items()),
    )


if __name__ == "__main__":
    write_atomically(ROOT / "docs" / "api" / "transformations.md", page())
