"""Functions of matrices compared with other libraries: the error of their gradients, and their speed.

Claim: rootpool is the only one whose gradient is right at every gap, and the fastest for batches.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from timing import duration, machine, race, table

from rootpool.linalg import inv_sqrtm, logm, powm, sqrtm

Peer = Callable[[torch.Tensor], torch.Tensor]


def native(f: Callable[[torch.Tensor], torch.Tensor]) -> Peer:
    def function(A: torch.Tensor) -> torch.Tensor:
        lam, U = torch.linalg.eigh(A)
        return (U * f(lam).unsqueeze(-2)) @ U.mT

    return function


def peers() -> dict[str, dict[str, Peer]]:
    """Matrix functions by library and name, without (and with a message about) those not installed."""
    systems: dict[str, dict[str, Peer]] = {
        "rootpool": {
            "sqrt": sqrtm,
            "inv_sqrt": inv_sqrtm,
            "log": logm,
            "power 0.3": lambda A: powm(A, 0.3),
            "power -0.7": lambda A: powm(A, -0.7),
        },
        "torch eigh autograd": {
            "sqrt": native(torch.sqrt),
            "inv_sqrt": native(torch.rsqrt),
            "log": native(torch.log),
            "power 0.3": native(lambda lam: lam**0.3),
            "power -0.7": native(lambda lam: lam**-0.7),
        },
    }
    if hasattr(torch.linalg, "matrix_sqrth"):
        systems["torch matrix_sqrth"] = {"sqrt": torch.linalg.matrix_sqrth}
    try:
        from spd_learn.functional import matrix_inv_sqrt, matrix_log, matrix_power, matrix_sqrt

        systems["spd_learn"] = {
            "sqrt": matrix_sqrt.apply,
            "inv_sqrt": matrix_inv_sqrt.apply,
            "log": matrix_log.apply,
            "power 0.3": lambda A: matrix_power.apply(A, 0.3),
            "power -0.7": lambda A: matrix_power.apply(A, -0.7),
        }
    except ImportError:
        print("spd_learn is not installed: left out", file=sys.stderr)
    try:
        from geoopt.linalg import sym_inv_sqrtm1, sym_logm, sym_sqrtm

        systems["geoopt"] = {"sqrt": sym_sqrtm, "inv_sqrt": sym_inv_sqrtm1, "log": sym_logm}
    except ImportError:
        print("geoopt is not installed: left out", file=sys.stderr)
    return systems


def accuracy(systems: dict[str, dict[str, Peer]]) -> None:
    """The relative error of the gradient by eigenvalue gap, against 50-digit arithmetic."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from matrices import random_symmetric, relative_error, with_spectrum
    from oracles import MATRIX_FUNCTIONS, value_and_derivative

    gaps = (1e-1, 1e-3, 1e-6, 1e-9, 1e-12, 1e-15, 0)
    G = random_symmetric(4, 4, seed=3)
    for dtype in (torch.float64, torch.float32):
        rows = []
        for function in MATRIX_FUNCTIONS:
            errors: dict[str, list[str]] = {
                system: [] for system, own in systems.items() if function in own
            }
            for gap in gaps:
                lam = torch.tensor([1, 1 + gap, 2, 2 + gap], dtype=torch.float64)
                A = with_spectrum(lam).to(dtype)
                _, exact = value_and_derivative(function, A, G.to(dtype))
                for system in errors:
                    B = A.clone().requires_grad_()
                    try:
                        systems[system][function](B).backward(G.to(dtype))
                        gradient = (B.grad + B.grad.mT) / 2
                        errors[system].append(f"{relative_error(gradient, exact):.0e}")
                    except RuntimeError:
                        errors[system].append("error")
            rows += [[function, system, *cells] for system, cells in errors.items()]
        name = str(dtype).removeprefix("torch.")
        print(f"\nRelative error of the gradient, {name}, by the gap of two pairs of eigenvalues\n")
        print(table(["function", "system", *(f"{gap:g}" for gap in gaps)], rows))


def speed(systems: dict[str, dict[str, Peer]], quick: bool) -> None:
    shapes = [(1, 3), (1, 64), (64, 16), (64, 64), (16, 256)]
    shapes += [] if quick else [(1, 4), (1, 16), (1, 32), (1, 256), (512, 3), (262144, 2)]
    shapes += [] if quick else [(512, 16), (256, 64), (64, 128), (64, 256)]
    rows = []
    for dtype in (torch.float64, torch.float32):
        for batch, n in sorted(shapes):
            generator = torch.Generator().manual_seed(n)
            X = torch.randn(batch, n, 2 * n, dtype=dtype, generator=generator)
            A = (X @ X.mT / (2 * n)).requires_grad_()
            G = torch.randn(batch, n, n, dtype=dtype, generator=generator)

            def step(f: Peer, A: torch.Tensor = A, G: torch.Tensor = G) -> object:
                return torch.autograd.grad(f(A), A, G)

            best = race(
                {name: lambda f=own["sqrt"]: step(f) for name, own in systems.items()}, 0.3, 5
            )
            ours = best.pop("rootpool")
            rows.append(
                [str(dtype).removeprefix("torch."), f"{batch} x {n} x {n}", duration(ours)]
                + [f"{seconds / ours:.2f}x" for seconds in best.values()]
            )
    print(
        "\nsqrtm, forward + backward: time of rootpool, and how many times longer the others take\n"
    )
    print(table(["dtype", "batch", "rootpool", *(s for s in systems if s != "rootpool")], rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer shapes")
    quick = parser.parse_args().quick
    warnings.filterwarnings("ignore", category=FutureWarning)
    systems = peers()
    print(machine())
    accuracy(systems)
    speed(systems, quick)


if __name__ == "__main__":
    main()
