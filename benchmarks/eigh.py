"""rootpool.linalg.eigh compared with torch.linalg.eigh: batches of covariances, single and tiny matrices.

Claim: batches are decomposed in parallel. What that gains, and what our checks cost for small matrices.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable

import torch
from timing import duration, machine, race, table

from rootpool.linalg import eigh
from rootpool.linalg.solvers import jacobi_eigh

DTYPES = (torch.float32, torch.float64)


def limit(n: int, dtype: torch.dtype, batch: int = 16) -> tuple[float, float]:
    """Milliseconds per matrix of LAPACK on one thread: alone, and with the other core busy too."""
    X = torch.randn(batch, n, 2 * n, dtype=dtype)
    A, best = X @ X.mT / n, []
    for count in (1, 2):
        together, times = threading.Barrier(count), []

        def work(A: torch.Tensor, together=together, times=times) -> None:
            torch.get_num_threads()
            torch.set_num_threads(1)
            for _ in range(9):
                together.wait()
                start = time.perf_counter()
                torch.linalg.eigh(A)
                times.append(time.perf_counter() - start)

        before = torch.get_num_threads()
        threads = [threading.Thread(target=work, args=(A.clone(),)) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        torch.set_num_threads(before)
        best.append(min(times) / batch * 1e3)
    return best[0], best[1]


def covariances(batch: int, n: int, dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(n)
    X = torch.randn(batch, n, 2 * n, dtype=dtype, generator=generator)
    return X @ X.mT / (2 * n)


def short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def grid(quick: bool) -> None:
    """Values and vectors of batches of all sizes."""
    sizes = (3, 64, 256) if quick else (2, 3, 4, 16, 32, 64, 128, 256, 512)
    batches = (1, 16, 128) if quick else (1, 4, 16, 64, 512, 8192, 262144)
    rows = []
    for dtype in DTYPES:
        for n in sizes:
            row = [short(dtype), str(n)]
            for batch in batches:
                if batch * n**2 > 64 * 256**2 or (batch > 512 and n > 4):
                    row.append("")  # takes long, shows nothing new
                    continue
                A = covariances(batch, n, dtype)
                best = race(
                    {"torch": lambda A=A: torch.linalg.eigh(A), "rootpool": lambda A=A: eigh(A)},
                    seconds=0.2,
                    rounds=5,
                )
                ratio = best["torch"] / best["rootpool"]
                row.append(f"{ratio:.2f}x ({duration(best['rootpool'])})")
            rows.append(row)
    print(table(["dtype", "n", *(f"batch {batch}" for batch in batches)], rows))
    print("\nSpeed-up (time of rootpool). Blank: not measured, because it takes long.")


def step(f: Callable, A: torch.Tensor) -> Callable[[], object]:
    """Forward and backward of both results."""
    A = A.clone().requires_grad_()
    generator = torch.Generator().manual_seed(0)
    upstream = [
        torch.randn(shape, dtype=A.dtype, generator=generator) for shape in (A.shape[:-1], A.shape)
    ]
    return lambda: torch.autograd.grad(tuple(f(A)), A, upstream)


def single(quick: bool) -> None:
    """One matrix and few, forward and backward."""
    rows = []
    for dtype in DTYPES:
        for batch, n in ((1, 3), (1, 16), (1, 32), (1, 64), (1, 128), (1, 256), (8, 3), (8, 16)):
            A = covariances(batch, n, dtype)
            A = A[0] if batch == 1 else A
            best = race(
                {"torch": step(torch.linalg.eigh, A), "rootpool": step(eigh, A)}, seconds=0.3
            )
            ratio = best["torch"] / best["rootpool"]
            times = [duration(best[name]) for name in ("rootpool", "torch")]
            rows.append([short(dtype), f"{batch} x {n}", *times, f"{ratio:.2f}x"])
    print("\nForward and backward of one matrix and of few\n")
    print(table(["dtype", "batch x n", "rootpool", "torch", "speed-up"], rows))


def tiny(quick: bool) -> None:
    """Where Jacobi beats LAPACK, on one thread: LEAST_BATCH in solvers.py is set by this."""
    batches = (512, 4096) if quick else (256, 512, 1024, 2048, 4096, 8192, 32768)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    rows = []
    for dtype in DTYPES:
        for n in (2, 3, 4):
            row = [short(dtype), str(n)]
            for batch in batches:
                A = covariances(batch, n, dtype)
                best = race(
                    {
                        "lapack": lambda A=A: torch.linalg.eigh(A),
                        "jacobi": lambda A=A: jacobi_eigh(A),
                        "both, lapack": step(torch.linalg.eigh, A),
                        "both, chosen": step(eigh, A),
                    },
                    seconds=0.08,
                    rounds=3,
                )
                forward = best["lapack"] / best["jacobi"]
                row.append(f"{forward:.2f}x, {best['both, lapack'] / best['both, chosen']:.2f}x")
            rows.append(row)
    torch.set_num_threads(threads)
    print(
        "\nTiny matrices, one thread: speed-up of Jacobi over LAPACK, and of eigh with its backward\n"
    )
    print(table(["dtype", "n", *(f"batch {batch}" for batch in batches)], rows))


def limits(quick: bool) -> None:
    """What two cores can gain."""
    rows = []
    for dtype in DTYPES:
        for n in (64, 128, 256):
            alone, beside = limit(n, dtype)
            A = covariances(16, n, dtype)
            torchs = race({"torch": lambda A=A: torch.linalg.eigh(A)}, 0.3)["torch"] / 16 * 1e3
            cells = [f"{t:.3f} ms" for t in (alone, beside, torchs)]
            rows.append([short(dtype), str(n), *cells, f"{2 * torchs / beside:.2f}x"])
    print(
        "\nWhat two cores can gain: LAPACK on one thread, on both cores at once, and torch with all threads\n"
    )
    print(
        table(["dtype", "n", "one core", "both cores", "torch", "largest possible speed-up"], rows)
    )


PARTS = {f.__name__: f for f in (grid, single, tiny, limits)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smaller grid")
    parser.add_argument(
        "--parts", nargs="+", choices=PARTS, default=list(PARTS), help="these alone"
    )
    arguments = parser.parse_args()
    if "grid" in arguments.parts:
        print(f"torch.linalg.eigh / rootpool.linalg.eigh, {machine()}\n")
    for part in arguments.parts:
        PARTS[part](arguments.quick)


if __name__ == "__main__":
    main()
