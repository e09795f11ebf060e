"""Count the cases in which the bits of a result depend on the number of threads or on the rest of the batch.

Nothing is timed. The bits of roots, eigenvectors, pooled features and their gradients are compared in
fresh processes, with each setting of MKL, because MKL reads its settings when it starts.

    python benchmarks/bits.py --output runs/bits.json
    python scripts/record_reliability.py runs/bits.json docs/appendix/reliability.md
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch
from timing import table
from torch import Tensor

from rootpool.files import write_atomically
from rootpool.linalg import eigh, sqrtm
from rootpool.machine import machine
from rootpool.nn import covariance_pool

SETTINGS: dict[str, dict[str, str]] = {
    "as it is": {},
    "MKL_CBWR=AVX2": {"MKL_CBWR": "AVX2"},
    "MKL_CBWR=COMPATIBLE": {"MKL_CBWR": "COMPATIBLE"},
    "MKL_CBWR=AVX2 OMP_NUM_THREADS=1": {"MKL_CBWR": "AVX2", "OMP_NUM_THREADS": "1"},
}
BATCH = 7
SIZES = (5, 8, 16, 17, 32, 33, 64, 70)
FEATURES = ((6, 9), (16, 49), (33, 20), (40, 60), (64, 49), (70, 100))  # channels, positions
THREADS = (1, 2, 3)

Step = Callable[[Tensor], Tensor]  # from a batch to the numbers to compare, one row per item


def with_gradient(function: Step, batch: Tensor) -> Tensor:
    """The result and its gradient, one row per item."""
    batch = batch.detach().requires_grad_()
    result = function(batch)
    # The same for every item, and without functions that round differently at the end of an array.
    incoming = torch.linspace(-1, 2, result[0].numel(), dtype=result.dtype).reshape(result[0].shape)
    (gradient,) = torch.autograd.grad(result, batch, incoming.expand_as(result).contiguous())
    return torch.cat([result.flatten(1), gradient.flatten(1)], 1).detach()


def definite(n: int, dtype: torch.dtype) -> Tensor:
    X = torch.randn(BATCH, n, 2 * n, dtype=dtype, generator=torch.Generator().manual_seed(n))
    return X @ X.mT / n


def cases(name: str) -> Iterator[tuple[Step, Tensor]]:
    """Every case of a row of the table: a step, and the batch it works on."""
    if name == "pooling by exact":
        for shape in FEATURES:
            generator = torch.Generator().manual_seed(shape[0])
            features = torch.randn(BATCH, *shape, generator=generator)
            yield partial(with_gradient, covariance_pool), features
        return
    function = sqrtm if name == "sqrtm" else lambda A: eigh(A).eigenvectors
    for dtype in (torch.float32, torch.float64):
        for n in SIZES:
            yield partial(with_gradient, function), definite(n, dtype)


def depends_on_threads(step: Step, batch: Tensor) -> bool:
    before, results = torch.get_num_threads(), []
    try:
        for count in THREADS:
            torch.set_num_threads(count)
            results.append(step(batch))
    finally:
        torch.set_num_threads(before)
    return not all(torch.equal(other, results[0]) for other in results[1:])


def depends_on_the_place(step: Step, batch: Tensor) -> bool:
    """Compare with the same items, each moved by one place."""
    return not torch.equal(step(batch.roll(1, 0)).roll(-1, 0), step(batch))


def depends_on_company(step: Step, batch: Tensor) -> bool:
    """Compare with the same items, one at a time: a single matrix is computed with all BLAS threads."""
    return not torch.equal(torch.cat([step(item.clone()) for item in batch.split(1)]), step(batch))


QUESTIONS = {
    "threads": depends_on_threads,
    "place": depends_on_the_place,
    "company": depends_on_company,
}


def count() -> list[dict[str, str | int]]:
    """How many cases differ in this process, for each kind of result."""
    one_thread = torch.get_num_threads() == 1
    rows: list[dict[str, str | int]] = []
    for name in ("eigh", "sqrtm", "pooling by exact"):
        row: dict[str, str | int] = {"result": name, "cases": sum(1 for _ in cases(name))}
        for question, differs in QUESTIONS.items():
            if not (one_thread and question == "threads"):
                row[question] = sum(differs(*case) for case in cases(name))
        rows.append(row)
    return rows


def mkl() -> str:
    found = re.search(r"Math Kernel Library Version (\S+)", torch.__config__.show())
    return f"MKL {found[1]}" if found else "without MKL"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, help="also write the record as JSON")
    parser.add_argument("--here", action="store_true", help="count in this process, print JSON")
    arguments = parser.parse_args()
    if arguments.here:
        print(json.dumps(count()))
        return
    rows = []
    for setting, variables in SETTINGS.items():
        command = [sys.executable, __file__, "--here"]
        environment = {**os.environ, **variables}
        found = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
        rows += [{"setting": setting, **row} for row in json.loads(found.stdout)]
    record = {"bits": rows, "machine": machine(), "mkl": mkl()}
    print(f"{record['machine']['device']}, torch {torch.__version__}, {record['mkl']}\n")
    header = list(rows[0])
    print(table(header, [[str(row.get(name, "")) for name in header] for row in rows]))
    if arguments.output:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(arguments.output, json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
