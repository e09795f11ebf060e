"""Two versions of rootpool side by side: what became faster, and what became slower.

Claim: none of its own; it shows what the work between two commits has gained at every shape.

    python benchmarks/versions.py a46937e            # a commit against the working tree
    python benchmarks/versions.py a46937e v0.2.0     # two commits

Each version has a process of its own. They take turns, case by case and several times, so that a slow
moment of the machine hits both; one of them works at a time.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from timing import duration, machine, race, table

ROOT = Path(__file__).parents[1]
POOLING = ((128, 256, 169), (128, 256, 49), (10, 256, 196), (32, 512, 49), (8, 2048, 49))
MATRICES = (
    (1, 3),
    (1, 16),
    (1, 32),
    (1, 64),
    (1, 128),
    (1, 256),
    (64, 16),
    (64, 64),
    (16, 256),
    (4096, 3),
)
TURNS, SECONDS = 6, 0.3


def covariances(batch: int, n: int) -> torch.Tensor:
    X = torch.randn(batch, n, 2 * n, dtype=torch.float64)
    A = X @ X.mT / (2 * n)
    return A[0] if batch == 1 else A


def forward_and_backward(
    function: Callable[[torch.Tensor], torch.Tensor], given: torch.Tensor
) -> Callable[[], object]:
    upstream = torch.randn_like(function(given))

    def run() -> None:
        function(given.detach().requires_grad_()).backward(upstream)

    return run


def twice(
    function: Callable[[torch.Tensor], torch.Tensor], A: torch.Tensor
) -> Callable[[], object]:
    """The gradient of a gradient."""

    def run() -> None:
        B = A.detach().requires_grad_()
        (g,) = torch.autograd.grad(function(B), B, A, create_graph=True)
        torch.autograd.grad(g, B, A)

    return run


def cases() -> dict[str, Callable[[], Callable[[], object]]]:
    """What is timed, by name: makers of calls, so that only the inputs of one case are in memory."""
    from rootpool.linalg import (
        eigh,
        expm,
        inv_sqrtm,
        inverse_root,
        logm,
        orthogonalize,
        powm,
        sqrtm,
        svd,
    )
    from rootpool.nn import CovariancePool

    def both(A: torch.Tensor) -> torch.Tensor:
        eigenvalues, eigenvectors = eigh(A)
        return eigenvectors * eigenvalues.unsqueeze(-2)

    def all_three(A: torch.Tensor) -> torch.Tensor:
        U, S, Vh = svd(A)
        return U * S.unsqueeze(-2) + Vh

    def of_rank(k: int, n: int) -> torch.Tensor:
        X = torch.randn(n, k, dtype=torch.float64)
        return X @ X.mT / k

    def single(n: int) -> torch.Tensor:
        A = torch.randn(n, n)
        return A + A.mT

    def pooling(B: int, d: int, N: int) -> Callable[[], object]:
        return forward_and_backward(CovariancePool(d), torch.randn(B, d, N, 1))

    found: dict[str, Callable[[], Callable[[], object]]] = {
        f"pooling, {shape}": lambda shape=shape: pooling(*shape) for shape in POOLING
    }
    for name, function in (
        ("sqrtm", sqrtm),
        ("inv_sqrtm", inv_sqrtm),
        ("logm", logm),
        ("eigh", both),
    ):
        for batch, n in MATRICES:
            found[f"{name}, {batch} x {n} x {n}"] = lambda f=function, batch=batch, n=n: (
                forward_and_backward(f, covariances(batch, n))
            )
    for name, function in (
        ("logm", logm),
        ("expm", expm),
        ("powm", lambda A: powm(A, 0.3)),
        ("inverse_root", lambda A: inverse_root(A, 4)),
    ):
        for n in (64, 128, 256):
            found[f"double backward of {name}, {n} x {n}"] = lambda f=function, n=n: twice(
                f, covariances(1, n)
            )
    found["eigh, rank 49 of 256"] = lambda: forward_and_backward(both, of_rank(49, 256))
    found["eigh, 512 x 512, float32"] = lambda: forward_and_backward(both, single(512))
    for n in (3, 16):
        found[f"svd, {n} x {n}"] = lambda n=n: forward_and_backward(all_three, covariances(1, n))
    found["orthogonalize, 3 x 3"] = lambda: forward_and_backward(orthogonalize, covariances(1, 3))
    return found


def serve() -> None:
    """Time the case that each line names, in the version that is installed for this process."""
    import rootpool

    print(Path(rootpool.__file__).parent, flush=True)
    known = cases()
    for line in sys.stdin:
        torch.manual_seed(0)
        run = known[line.strip()]()
        print(race({"": run}, seconds=SECONDS, rounds=1)[""], flush=True)
        del run


class Version:
    """A version in a process of its own."""

    def __init__(self, source: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve"],
            env={**os.environ, "PYTHONPATH": str(source)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        place = self._hear()
        if Path(place).resolve() != (source / "rootpool").resolve():
            raise RuntimeError(f"expected rootpool from {source}, got {place}")

    def seconds(self, case: str) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{case}\n")
        self.process.stdin.flush()
        return float(self._hear())

    def _hear(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        if not line:
            raise RuntimeError("a version ended with an error, which stands above")
        return line


def source_of(commit: str | None, folder: Path) -> Path:
    """The sources of a commit, in a folder of their own; those of the working tree for None."""
    if commit is None:
        return ROOT / "src"
    place = folder / commit.replace("/", "-")
    place.mkdir()
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", commit, "src"], check=True, capture_output=True
    ).stdout
    subprocess.run(["tar", "-x", "-C", str(place)], input=archive, check=True)
    return place / "src"


def compare(before: str, after: str | None, chosen: str) -> None:
    """Print a table of the cases whose name has the chosen text in it."""
    with tempfile.TemporaryDirectory() as folder:
        versions = [Version(source_of(commit, Path(folder))) for commit in (before, after)]
        rows = []
        for case in (case for case in cases() if chosen in case):
            best = [float("inf")] * 2
            for turn in range(TURNS):
                best = [min(b, v.seconds(case)) for b, v in zip(best, versions, strict=True)]
                if turn and max(best) > 1:  # seconds: nothing small is compared
                    break
            rows.append([case, *map(duration, best), f"{best[0] / best[1]:.2f}x"])
            print(*rows[-1], sep="  ", file=sys.stderr)
        for version in versions:
            version.process.communicate()
    print(machine())
    print()
    print(table(["forward + backward", before, after or "here", "faster by"], rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", nargs="?", help="a commit")
    parser.add_argument("after", nargs="?", help="another commit (default: the working tree)")
    parser.add_argument("--cases", default="", help="only those with this text in their name")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
    elif options.before is None:
        parser.error("name the commit to compare with")
    else:
        compare(options.before, options.after, options.cases)
