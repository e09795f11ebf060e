"""rootpool.linalg.eigh compared with torch.linalg.eigh: batches of covariances, forward only.

Claim: batches are decomposed in parallel. What that gains, and what our checks cost for small matrices.
"""

from __future__ import annotations

import argparse
import threading
import time

import torch
from timing import duration, machine, race, table

from rootpool.linalg import eigh


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smaller grid")
    quick = parser.parse_args().quick
    sizes = (3, 64, 256) if quick else (2, 3, 4, 16, 32, 64, 128, 256, 512)
    batches = (1, 16, 128) if quick else (1, 4, 16, 64, 512, 8192, 262144)

    print(f"torch.linalg.eigh / rootpool.linalg.eigh, {machine()}\n")
    rows = []
    for dtype in (torch.float32, torch.float64):
        for n in sizes:
            row = [str(dtype).removeprefix("torch."), str(n)]
            for batch in batches:
                if batch * n**2 > 64 * 256**2 or (
                    batch > 512 and n > 4
                ):  # takes long, shows nothing new
                    row.append("")
                    continue
                generator = torch.Generator().manual_seed(n)
                X = torch.randn(batch, n, 2 * n, dtype=dtype, generator=generator)
                A = X @ X.mT / (2 * n)
                best = race(
                    {"torch": lambda A=A: torch.linalg.eigh(A), "rootpool": lambda A=A: eigh(A)},
                    seconds=0.3,
                    rounds=7,
                )
                ratio = best["torch"] / best["rootpool"]
                row.append(f"{ratio:.2f}x ({duration(best['rootpool'])})")
            rows.append(row)
    header = ["dtype", "n", *(f"batch {batch}" for batch in batches)]
    print(table(header, rows))
    print("\nSpeed-up (time of rootpool). Blank: not measured, because it takes long.")

    rows = []
    for dtype in (torch.float32, torch.float64):
        for n in (64, 128, 256):
            alone, beside = limit(n, dtype)
            X = torch.randn(16, n, 2 * n, dtype=dtype)
            A = X @ X.mT / n
            torchs = race({"torch": lambda A=A: torch.linalg.eigh(A)}, 0.3)["torch"] / 16 * 1e3
            cells = [f"{t:.3f} ms" for t in (alone, beside, torchs)]
            rows.append(
                [str(dtype).removeprefix("torch."), str(n), *cells, f"{2 * torchs / beside:.2f}x"]
            )
    print(
        "\nWhat two cores can gain: LAPACK on one thread, on both cores at once, and torch with all threads\n"
    )
    print(
        table(["dtype", "n", "one core", "both cores", "torch", "largest possible speed-up"], rows)
    )


if __name__ == "__main__":
    main()
