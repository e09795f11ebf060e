"""Newton-Schulz with its own backward and with the Lyapunov equation: time, and what is kept between the two.

Claim: with the equation the memory of `isqrt-cov` does not grow with the number of iterations.

    python benchmarks/lyapunov.py              (B, d, N) = (16, 256, 49) and (16, 256, 400)
"""

from __future__ import annotations

import torch
from timing import duration, machine, race, table
from torch import Tensor

from rootpool.nn import ISqrtCov, covariance_pool

SHAPES = ((16, 256, 49), (16, 256, 400))
ITERATIONS = (5, 10, 15, 20)


def kept(X: Tensor, method: ISqrtCov) -> float:
    """Megabytes that a forward keeps for its backward."""
    storages: dict[int, int] = {}

    def note(t: Tensor) -> Tensor:
        storages[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    with torch.autograd.graph.saved_tensors_hooks(note, lambda t: t):
        pooled = covariance_pool(X, method)
    del pooled
    return sum(storages.values()) / 2**20


def main() -> None:
    print(machine())
    print(
        "\nTime of forward and backward, what is kept between them, and the error of the gradient\n"
    )
    rows = []
    for shape in SHAPES:
        generator = torch.Generator().manual_seed(0)
        X = torch.randn(*shape, generator=generator).relu_().requires_grad_()
        g = torch.randn(shape[0], shape[1] * (shape[1] + 1) // 2, generator=generator)
        (exact,) = torch.autograd.grad(covariance_pool(X, compute_dtype=torch.float64), X, g)
        for iterations in ITERATIONS:
            methods = {b: ISqrtCov(iterations, b) for b in ("iteration", "lyapunov")}
            steps = {
                name: lambda m=m, X=X, g=g: torch.autograd.grad(covariance_pool(X, m), X, g)
                for name, m in methods.items()
            }
            best = race(steps, seconds=0.5, rounds=2)
            errors = {
                n: float((step()[0] - exact).norm() / exact.norm()) for n, step in steps.items()
            }
            cells = [
                cell
                for name, method in methods.items()
                for cell in (
                    duration(best[name]),
                    f"{kept(X, method):.0f} MB",
                    f"{errors[name]:.0e}",
                )
            ]
            rows.append([str(shape), str(iterations), *cells])
    columns = ("time", "kept", "error")
    header = [f"{c}, {b}" for b in ("iteration", "lyapunov") for c in columns]
    print(table(["(B, d, N)", "iterations", *header], rows))
    print("\nError: of the gradient, against that of the exact root.")


if __name__ == "__main__":
    main()
