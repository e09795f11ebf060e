"""Count how often a forward and backward make the host wait for an accelerator, with checks and without.

Nothing is timed, and no accelerator is needed: tensors are fake (tests/fake_cuda.py). The wait of each
decomposition, in which torch looks whether it has converged, is counted.

    python benchmarks/waits.py --output runs/waits.json
    python scripts/record_reliability.py runs/waits.json docs/appendix/reliability.md
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from timing import table
from torch import Tensor

from rootpool.files import write_atomically
from rootpool.linalg import inv_sqrtm, skip_checks, sqrtm
from rootpool.nn import covariance_pool

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from fake_cuda import counted

STEPS: dict[str, Callable[[Tensor], Iterable[Tensor]]] = {
    "sqrtm": lambda A: (sqrtm(A),),
    "inv_sqrtm": lambda A: (inv_sqrtm(A),),
    "pooling by exact": lambda X: (covariance_pool(X),),
    "pooling by polar": lambda X: (covariance_pool(X, "polar"),),
    "pooling by isqrt-cov": lambda X: (covariance_pool(X, "isqrt-cov"),),
}


def count() -> list[dict[str, str | tuple[int, int]]]:
    """The waits of each step, with checks and without."""
    rows: list[dict[str, str | tuple[int, int]]] = []
    for name, function in STEPS.items():
        shape = (16, 24, 49) if "pooling" in name else (16, 24, 24)

        def run(
            function: Callable[[Tensor], Iterable[Tensor]] = function,
            shape: tuple[int, ...] = shape,
        ) -> tuple[int, int]:
            forward, backward, _ = counted(function, *shape)
            return forward.waits, backward.waits

        checked = run()
        with skip_checks():
            rows.append({"step": name, "checked": checked, "unchecked": run()})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, help="also write the record as JSON")
    arguments = parser.parse_args()
    rows = count()
    print(table(list(rows[0]), [[str(cell) for cell in row.values()] for row in rows]))
    if arguments.output:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(arguments.output, json.dumps({"waits": rows}, indent=1))


if __name__ == "__main__":
    main()
