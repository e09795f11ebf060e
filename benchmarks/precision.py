"""What the three precisions of covariance pooling cost, and what they keep: errors, time, memory.

Claims: for float32 features the default is as right as their digits allow, at every condition number; it is
faster than float64 throughout, and keeps half as much for the backward. Float32 throughout is faster still,
and loses singular values below a thousandth of the largest.

    python benchmarks/precision.py                     errors, time and memory (a minute)
    python benchmarks/precision.py --parts training    errors of the two miniature networks (minutes)
    python benchmarks/precision.py --parts training --birds CUB_200_2011    and of heads for birds
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

import torch
from pooling import SHAPES, inputs, step
from timing import machine, race, table
from torch import Tensor

from rootpool.nn import covariance_pool

if TYPE_CHECKING:
    from studies.engine.network import Network

Ending = dict[str, Any]
PRECISIONS: dict[str, torch.dtype | None] = {
    "default": None,
    "float64": torch.float64,
    "float32": torch.float32,
}


def pool(name: str) -> Callable[[Tensor], Tensor]:
    return lambda X: covariance_pool(X, compute_dtype=PRECISIONS[name])


def conditioned(condition: float, d: int = 128, N: int = 49) -> tuple[Tensor, Tensor]:
    """Float32 features with singular values from 1 to 1 / condition, and the direction of the last one."""
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(4, d, N, generator=generator, dtype=torch.float64)
    U, _, Vt = torch.linalg.svd(X - X.mean(-1, keepdim=True), full_matrices=False)
    falling = torch.tensor(condition, dtype=torch.float64) ** -torch.linspace(0, 1, N - 1)
    X = ((U[..., : N - 1] * falling) @ Vt[:, : N - 1]).float()
    U = torch.linalg.svd(X.double() - X.double().mean(-1, keepdim=True), full_matrices=False)[0]
    return X, U[..., N - 2]


def accuracy() -> None:
    """Errors against float64 throughout for the same features in float64."""
    rows = []
    for power in range(8):
        X, last = conditioned(10.0**power)

        def results(X: Tensor, name: str, last: Tensor = last) -> list[Tensor]:
            X = X.clone().requires_grad_()
            Q = pool(name)(X)
            g = torch.randn(Q.shape, generator=torch.Generator().manual_seed(1)).to(Q.dtype)
            gradient = torch.autograd.grad(Q, X, g)[0]
            along = last.unsqueeze(1) @ gradient.double()
            return [Q.detach().double(), gradient.double(), along]

        true = results(X.double(), "float64")
        row = [f"1e{power}"]
        for name in PRECISIONS:
            errors = zip(results(X, name), true, strict=True)
            row.append(", ".join(f"{float((a - b).norm() / b.norm()):.0e}" for a, b in errors))
        rows.append(row)
    print(
        "Relative errors of the root, of the gradient, and of the part of the gradient that belongs to the"
    )
    print("smallest singular value, (4, 128, 49)\n")
    print(table(["condition of the features", *PRECISIONS], rows))


def cost() -> None:
    rows = []
    for name, (B, d, N) in SHAPES.items():
        X, g = inputs(B, d, N)
        best = race({p: step(pool(p), X, g) for p in PRECISIONS}, seconds=1.5, rounds=3)
        kept = {p: saved(pool(p), X) for p in PRECISIONS}
        rows.append(
            [
                f"{name} ({B}, {d}, {N})",
                f"{best['default'] / B * 1e3:.2f} ms",
                *(f"{best[p] / best['default']:.2f}" for p in ("float64", "float32")),
                *(f"{kept[p] / B / 2**20:.2f} MB" for p in PRECISIONS),
            ]
        )
    header = ["shape (B, d, N)", "default", "float64", "float32"]
    print(
        "\n\nForward and backward per image, the others as multiples, and what is kept for the backward\n"
    )
    print(table([*header, *(f"kept, {p}" for p in PRECISIONS)], rows))


def saved(run: Callable[[Tensor], Tensor], X: Tensor) -> int:
    """Bytes that a forward keeps for its backward."""
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() != X.untyped_storage().data_ptr():
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        run(X)
    return sum(kept.values())


def training(seeds: int, folder: str, birds: str | None, features: str) -> None:
    """Final errors of trained networks, and paired differences to float64 throughout."""
    from studies.birds.command import bird_network
    from studies.engine.network import SMALL, Network

    networks = [Network(family, seeds=seeds) for family in SMALL]
    if birds is not None:
        networks.append(bird_network(birds, features, seeds=seeds))
    rows = [row for n in networks for row in _compared(n.called, _trained(n, folder))]
    print(f"\n\nError after training in percent, {seeds} seeds\n")
    print(table(["network", "precision", "error", "against float64, 95 %", "p"], rows))


def _trained(network: Network, folder: str) -> list[Ending]:
    from studies.engine.study import Runs
    from studies.engine.training import train

    changes = {n: {} if d is None else {"compute_dtype": n} for n, d in PRECISIONS.items()}
    blocks = [Runs(["exact"], name=n, change={"model": change}) for n, change in changes.items()]
    trials = [trial for block in blocks for trial in network.trials(block)]
    found = train(trials, Path(folder))
    return [{**found[t.key].ending, "run": t.label} for t in trials]


def _compared(network: str, ends: list[Ending]) -> list[list[str]]:
    from rootpool.report.statistics import compare, show_p

    rows = []
    for name in PRECISIONS:
        errors = [end["val_error"] for end in ends if end["run"] == name]
        row = [network, name, f"{fmean(errors):.2f} ± {stdev(errors):.2f}", "–", "–"]
        if name != "float64":
            (d,) = compare(ends, [(name, "float64")])
            half = 0.0 if d.low is None or d.high is None else (d.high - d.low) / 2
            row[3:] = [f"{d.mean:+.2f} ± {half:.2f}", show_p(d.p_value).removeprefix("= ")]
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--parts", nargs="+", choices=["errors", "cost", "training"], default=["errors", "cost"]
    )
    parser.add_argument("--seeds", type=int, default=5, help="of the trainings")
    parser.add_argument("--runs", default="runs/precision", help="folder of the trainings")
    parser.add_argument("--birds", help="CUB-200-2011: train heads for birds, too")
    parser.add_argument("--features", default="runs/birds", help="output of 'rootpool birds'")
    arguments = parser.parse_args()
    print(machine(), end="\n\n\n")
    if "errors" in arguments.parts:
        accuracy()
    if "cost" in arguments.parts:
        cost()
    if "training" in arguments.parts:
        training(arguments.seeds, arguments.runs, arguments.birds, arguments.features)


if __name__ == "__main__":
    main()
