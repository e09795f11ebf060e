"""Covariance pooling, forward and backward, compared with the paper's recipes and with other libraries.

Claims: `exact` is many times faster than each of them; every SVD method is at least three times faster
than the paper's recipe for it; `exact` takes little longer than its own matrix products and LAPACK calls;
and nothing needs less memory.

    python benchmarks/pooling.py               all tables (some minutes)
    python benchmarks/pooling.py --quick       the first table on smaller batches
    python benchmarks/pooling.py --methods     the table of all methods alone
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import warnings
from collections.abc import Callable

import torch
from paper_recipes import RECIPES, layer, newton_schulz
from timing import duration, machine, race, table
from torch import Tensor

from rootpool.linalg import eigh
from rootpool.linalg.parallel import run_pieces
from rootpool.nn import METHODS, covariance_pool
from rootpool.nn.fused import cuts

SHAPES = {
    "AlexNet": (128, 256, 169),
    "ResNet, 224 px": (128, 256, 49),
    "fine-grained, 448 px": (10, 256, 196),
    "512 channels": (32, 512, 49),
    "no reduction": (8, 2048, 49),
}


def native(P: Tensor) -> Tensor:
    lam, U = torch.linalg.eigh(P)
    return (U * lam.clamp_min(torch.finfo(P.dtype).eps).sqrt().unsqueeze(-2)) @ U.mT


def contestants() -> dict[str, Callable[[Tensor], Tensor]]:
    found: dict[str, Callable[[Tensor], Tensor]] = {
        "rootpool exact": covariance_pool,
        "rootpool exact, float64": lambda X: covariance_pool(X, compute_dtype=torch.float64),
        "rootpool exact, float32": lambda X: covariance_pool(X, compute_dtype=torch.float32),
        "paper's SVD-Pade": RECIPES["svd-pade"],
        "Newton-Schulz, float32": layer(newton_schulz, torch.float32),
        "Newton-Schulz, float64": layer(newton_schulz),
        "torch eigh autograd": layer(native),
    }
    if hasattr(torch.linalg, "matrix_sqrth"):

        def ridged(P: Tensor) -> Tensor:
            eps = torch.finfo(P.dtype).eps
            trace = P.diagonal(dim1=1, dim2=2).sum(1)[:, None, None]
            # With eps I alone, rounding decides whether the matrix passes the check of definiteness.
            return torch.linalg.matrix_sqrth(P + 100 * eps * trace * torch.eye(P.shape[-1]))

        found["torch matrix_sqrth"] = layer(ridged)
    try:
        from spd_learn.functional import matrix_sqrt

        found["spd_learn"] = layer(matrix_sqrt.apply)
    except ImportError:
        print("spd_learn is not installed: left out", file=sys.stderr)
    return found


def inputs(B: int, d: int, N: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(B, d, N, generator=generator).relu_().requires_grad_()
    return X, torch.randn(B, d * (d + 1) // 2, generator=generator)


def step(pool: Callable[[Tensor], Tensor], X: Tensor, g: Tensor) -> Callable[[], object]:
    return lambda: torch.autograd.grad(pool(X), X, g)


def own_products(B: int, d: int, N: int) -> dict[str, Callable[[], object]]:
    """The matrix products and LAPACK calls of the layer and nothing else, in its precisions, in two ways.

    Once with one call each for the whole batch. And once as the layer runs them, a few images at a time
    in its threads, but always on the same few images, so that they are in the cache.
    """
    thin = d >= N
    r = N - 1 if thin else d
    pieces = cuts(B, d, N)
    height = 64 if d <= 256 else 128 if d <= 1024 else 256

    def calls(size: int) -> tuple[Callable[[], None], Callable[[], None]]:
        shapes = ((d, r if thin else N), (r, r), (d, r), (r, N), (d, d))
        Y, V, W, K, S = (torch.randn(size, *shape) for shape in shapes)
        Y, V = Y.double(), V.double()

        def forward() -> None:
            gram = torch.bmm(Y.mT, Y) if thin else torch.bmm(Y, Y.mT)
            eigh(gram)
            torch.bmm(Y, V) if thin else torch.bmm(V, Y)
            for begin in range(0, d, height):
                torch.bmm(W[:, begin : begin + height], W[:, begin:].mT)

        def backward() -> None:
            T = torch.bmm(S, W)
            T.baddbmm_(W, torch.bmm(W.mT, T))
            torch.bmm(T, K)

        return forward, backward

    plain, cached = calls(B), calls(pieces[1])
    return {
        "own products + LAPACK": lambda: [call() for call in plain],
        "the same, in cache": lambda: [run_pieces(lambda _, c=c: c(), pieces) for c in cached],
    }


def flops(d: int, N: int) -> tuple[float, float]:
    """Multiplications and additions per image in the products in float64 and in float32, without LAPACK."""
    thin = d >= N
    r = N - 1 if thin else d
    height = 64 if d <= 256 else 128 if d <= 1024 else 256
    double = 4 * d * r * (r if thin else N)  # Gram, and W or K
    single = d * d * r * (1 + height / d)  # half of Q
    return double, single + 2 * d * d * r + 4 * d * r * r + 2 * d * r * N


def against_peers(shapes: dict[str, tuple[int, int, int]]) -> None:
    peers = contestants()
    header = ["shape (B, d, N)", "exact, per image", "Mflop", *list(peers)[1:]]
    header += own_products(1, 2, 2)
    rows = []
    for name, (B, d, N) in shapes.items():
        X, g = inputs(B, d, N)
        runs = {
            peer: step(pool, X, g)
            for peer, pool in peers.items()
            if d < 2048 or peer.startswith("rootpool")
        }
        runs |= own_products(B, d, N)
        best = race(runs, seconds=1.5, rounds=3)
        if d >= 2048:  # a step takes some peers a minute: measure one image, and multiply
            one, g_one = X[:1].detach().requires_grad_(), g[:1]
            slow = {p: step(pool, one, g_one) for p, pool in peers.items() if p not in runs}
            best |= {p: B * seconds for p, seconds in race(slow, 0.1, 1).items()}
        ours = best["rootpool exact"]
        cells = [f"{best[p] / ours:.2f}" for p in header[3:]]
        rows.append(
            [
                f"{name} ({B}, {d}, {N})",
                f"{ours / B * 1e3:.2f} ms",
                f"{sum(flops(d, N)) / 1e6:.0f}",
                *cells,
            ]
        )
        print(".", end="", file=sys.stderr, flush=True)
    print("\n\nTime of `exact`, and of the others as multiples of it\n")
    print(table(header, rows))
    print(
        "\nAt 2048 channels the others are timed on one image, and the time is multiplied by the batch."
        "\nmatrix_sqrth gets P + 100 eps tr(P) I: with eps I alone, rounding can make P indefinite."
    )


def against_recipes(B: int) -> None:
    X, g = inputs(B, 256, 169)
    rows = []
    for name, recipe in RECIPES.items():
        ours = step(lambda X, name=name: covariance_pool(X, name), X, g)
        best = race({"paper": step(recipe, X, g), "ours": ours}, seconds=1, rounds=2)
        rows.append(
            [
                f"`{name}`",
                duration(best["paper"]),
                duration(best["ours"]),
                f"{best['paper'] / best['ours']:.1f}x",
            ]
        )
        print(".", end="", file=sys.stderr, flush=True)
    print(f"\n\nEvery SVD method, compared with the paper's recipe for it, ({B}, 256, 169)\n")
    print(table(["method", "recipe", "rootpool", "speed-up"], rows))


def all_methods(B: int) -> None:
    shapes = [(B, 256, 49), (B, 256, 400)]
    rows = []
    for name, kind in METHODS.items():
        cells = []
        for shape in shapes:
            X, g = inputs(*shape)
            run = step(lambda X, name=name: covariance_pool(X, name), X, g)
            best = race({"exact": step(covariance_pool, X, g), name: run}, seconds=0.3, rounds=2)
            cells.append(f"{best[name] / best['exact']:.2f}")
        rows.append([f"`{name}`", kind.source, *cells])
        print(".", end="", file=sys.stderr, flush=True)
    print("\n\nForward and backward of every method, as multiples of `exact`\n")
    print(table(["method", "source", *map(str, shapes)], rows))


def peak_memory(name: str, B: int, d: int, N: int) -> None:
    """Print by how many MB one step raises the resident memory; called in a process of its own."""

    def status(key: str) -> int:
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith(key))

    pool, (X, g) = contestants()[name], inputs(B, d, N)
    step(pool, X[:1].detach().requires_grad_(), g[:1])()  # thread pools and plans do not count
    before = status("VmRSS")
    step(pool, X, g)()
    print(round((status("VmHWM") - before) / 1024))


def memory(shapes: dict[str, tuple[int, int, int]]) -> None:
    names = [name for name in contestants() if name != "torch matrix_sqrth"]
    rows = []
    for shape in shapes.values():
        if shape[1] >= 2048:
            shape = (1, *shape[1:])  # one image takes the paper's recipe most of a minute
        row = [str(shape)]
        for name in names:
            command = [sys.executable, __file__, "--memory", name, *map(str, shape)]
            result = subprocess.run(command, capture_output=True, text=True, check=True)
            row.append(f"{result.stdout.strip().splitlines()[-1]} MB")
        rows.append(row)
        print(".", end="", file=sys.stderr, flush=True)
    print("\n\nPeak memory of one step, above the memory in use before it\n")
    print(table(["(B, d, N)", *names], rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller batches, first table only")
    parser.add_argument("--methods", action="store_true", help="only the table of all methods")
    parser.add_argument("--memory", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", category=FutureWarning)
    if arguments.memory:
        name, *shape = arguments.memory
        peak_memory(name, *map(int, shape))
    elif arguments.methods:
        print(machine())
        all_methods(16)
    else:
        print(machine())
        quick = {k: (min(B, 16), d, N) for k, (B, d, N) in SHAPES.items() if d < 2048}
        against_peers(quick if arguments.quick else SHAPES)
        if not arguments.quick:
            against_recipes(128)
            memory(SHAPES)


if __name__ == "__main__":
    assert set(RECIPES) < set(METHODS)
    main()
