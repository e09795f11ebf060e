"""Count how often a forward and backward would make the host wait for an accelerator.

Nothing is timed, and no accelerator is needed: CPU tensors take the path of accelerators (one piece, in
the calling thread), and the operators that bring values to Python are counted, with checks and without.
torch.linalg.eigh and svd also wait to see whether they converged; that is not counted.

    python benchmarks/waits.py --output runs/waits.json
    python scripts/record_reliability.py runs/waits.json docs/appendix/reliability.md
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from unittest import mock

import torch
from timing import table
from torch import Tensor

from rootpool.files import write_atomically
from rootpool.linalg import eigh, inv_sqrtm, skip_checks, sqrtm, svd
from rootpool.nn import covariance_pool, fused

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from host_waits import waits_of_a_step

STEPS: dict[str, Callable[[Tensor], Iterable[Tensor]]] = {
    "sqrtm": lambda A: (sqrtm(A),),
    "inv_sqrtm": lambda A: (inv_sqrtm(A),),
    "eigh": eigh,
    "svd": svd,
    "pooling by exact": lambda X: (covariance_pool(X),),
    "pooling by isqrt-cov": lambda X: (covariance_pool(X, "isqrt-cov"),),
}


def count() -> list[dict[str, str | tuple[int, int]]]:
    """The waits of each step, with checks and without."""
    X = torch.randn(16, 24, 49, generator=torch.Generator().manual_seed(0))
    rows: list[dict[str, str | tuple[int, int]]] = []
    for name, function in STEPS.items():
        run = partial(waits_of_a_step, function, X if "pooling" in name else X @ X.mT)
        checked = run()
        with skip_checks():
            rows.append({"step": name, "checked": checked, "unchecked": run()})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, help="also write the record as JSON")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # linalg then leaves the batch in one piece, as on an accelerator
    with mock.patch.object(fused, "_on_cpu", return_value=False):
        rows = count()
    print(table(list(rows[0]), [[str(cell) for cell in row.values()] for row in rows]))
    if arguments.output:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(arguments.output, json.dumps({"waits": rows}, indent=1))


if __name__ == "__main__":
    main()
