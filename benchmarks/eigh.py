"""rootpool.linalg.eigh against torch.linalg.eigh: batches of covariances, forward only.

Claim: batches are decomposed in parallel, and nothing is slower. Run with --quick for a smaller grid.
"""

from __future__ import annotations

import argparse

import torch
from timing import duration, machine, race, table

from rootpool.linalg import eigh


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smaller grid")
    quick = parser.parse_args().quick
    sizes = (4, 64, 256) if quick else (4, 16, 64, 128, 256, 512)
    batches = (1, 16, 128) if quick else (1, 4, 16, 64, 512)

    print(f"torch.linalg.eigh / rootpool.linalg.eigh, {machine()}\n")
    rows = []
    for dtype in (torch.float32, torch.float64):
        for n in sizes:
            row = [str(dtype).removeprefix("torch."), str(n)]
            for batch in batches:
                if batch * n**2 > 64 * 256**2:  # many seconds for nothing new
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
    print("\nSpeed-up (time of rootpool). Blank: more than 64 matrices of 256 x 256, left out.")


if __name__ == "__main__":
    main()
