"""Functions of matrices compared with other libraries: the error of their gradients, and their speed.

Claim: every gradient of rootpool is right at every gap, and batches are fast. Single small matrices are not.
"""

from __future__ import annotations

import argparse
import functools
import sys
import warnings
from collections.abc import Callable

import mpmath
import torch
from gradient_problems import PROBLEMS, SYMMETRIC, TALL, Kind, by_eigh, few_samples
from timing import duration, machine, race, table

from matrices import random_symmetric, relative_error, symmetric
from oracles import MATRIX_FUNCTIONS, derivatives, digits
from rootpool.linalg import eigvalsh, expm, inv_sqrtm, logm, polar, powm, sqrtm, svdvals

Peer = Callable[[torch.Tensor], torch.Tensor]


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
            "sqrt": by_eigh(torch.sqrt),
            "inv_sqrt": by_eigh(torch.rsqrt),
            "log": by_eigh(torch.log),
            "power 0.3": by_eigh(lambda lam: lam**0.3),
            "power -0.7": by_eigh(lambda lam: lam**-0.7),
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


GAPS = (1e-1, 1e-3, 1e-6, 1e-9, 1e-12, 1e-15, 0)
DTYPES = (torch.float64, torch.float32)


def short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def error_of(gradient: Callable[[], torch.Tensor], exact: torch.Tensor) -> str:
    try:
        return f"{relative_error(gradient(), exact):.0e}"
    except RuntimeError:
        return "error"


def roots_of(A: torch.Tensor, G: torch.Tensor, f: Peer) -> torch.Tensor:
    B = A.clone().requires_grad_()
    return symmetric(torch.autograd.grad(f(B), B, G)[0])


def accuracy(quick: bool) -> None:
    """The relative error of the gradient by gap, against 50-digit arithmetic."""
    systems, G = peers(), random_symmetric(4, 4, seed=3)
    gaps = GAPS[::3] if quick else GAPS
    for dtype in DTYPES:
        rows: dict[tuple[str, str], list[str]] = {}
        for function in MATRIX_FUNCTIONS:
            for gap in gaps:
                A = SYMMETRIC.tied(gap)[0].to(dtype)
                _, exact = derivatives(function, A, G.to(dtype))
                for system, own in systems.items():
                    if function in own:
                        step = functools.partial(roots_of, A, G.to(dtype), own[function])
                        rows.setdefault((function, system), []).append(error_of(step, exact))
        for function, problem in PROBLEMS.items():
            for gap in gaps:
                inputs = tuple(A.to(dtype) for A in problem.kind.tied(gap))
                exact = problem.exact_gradient(tuple(A.double() for A in inputs))
                for system in problem.systems:
                    step = functools.partial(problem.gradient, system, inputs)
                    rows.setdefault((function, system), []).append(error_of(step, exact))
        print(
            f"\nRelative error of the gradient, {short(dtype)}, by the gap of two pairs of values\n"
        )
        cells = [[*names, *errors] for names, errors in rows.items()]
        print(table(["function", "system", *(f"{gap:g}" for gap in gaps)], cells))


def low_rank(quick: bool) -> None:
    """The Frechet distance of fewer samples than dimensions."""
    problem, rows = PROBLEMS["frechet_distance"], []
    for dtype in DTYPES:
        inputs = few_samples(dtype)
        wide = tuple(A.double() for A in inputs)
        with mpmath.workdps(80):
            value = torch.tensor(float(problem.digits(*map(digits, wide))), dtype=torch.float64)
        exact = problem.exact_gradient(wide)
        for system, f in problem.systems.items():
            at = functools.partial(f, *inputs)
            step = functools.partial(problem.gradient, system, inputs)
            rows.append([short(dtype), system, error_of(at, value), error_of(step, exact)])
    print("\nFrechet distance of 4 and 4 samples of dimension 9: relative errors\n")
    print(table(["dtype", "system", "value", "gradient"], rows))


def versus(best: dict[str, float]) -> list[str]:
    """The time of rootpool, and the others as multiples of it."""
    ours = best.pop("rootpool")
    return [duration(ours), ", ".join(f"{name} {t / ours:.2f}x" for name, t in best.items())]


def roots(quick: bool) -> None:
    """The root by every library, forward and backward."""
    systems = peers()
    shapes = [(1, 3), (1, 64), (64, 16), (64, 64), (16, 256)]
    shapes += [] if quick else [(1, 4), (1, 16), (1, 32), (1, 256), (512, 3), (16384, 2)]
    shapes += [] if quick else [(512, 16), (256, 64), (64, 128)]
    rows = []
    for dtype in DTYPES:
        for batch, n in sorted(shapes):
            (A,) = SYMMETRIC.random(batch, n, dtype)
            A.requires_grad_()
            G = random_symmetric(batch, n, n, dtype=dtype, seed=1)

            def step(f: Peer, A: torch.Tensor = A, G: torch.Tensor = G) -> object:
                return torch.autograd.grad(f(A), A, G)

            best = race(
                {name: lambda f=own["sqrt"]: step(f) for name, own in systems.items()}, 0.2, 3
            )
            ours = best.pop("rootpool")
            rows.append(
                [short(dtype), f"{batch} x {n} x {n}", duration(ours)]
                + [f"{seconds / ours:.2f}x" for seconds in best.values()]
            )
    print(
        "\nsqrtm, forward + backward: time of rootpool, and how many times longer the others take\n"
    )
    print(table(["dtype", "batch", "rootpool", *(s for s in systems if s != "rootpool")], rows))


def functions(quick: bool) -> None:
    """Every other function, forward and backward, against what users write in torch."""
    shapes = [(1, 4), (64, 64)] if quick else [(1, 4), (1, 32), (1, 128), (64, 16), (64, 64)]
    rows = []
    for name, problem in PROBLEMS.items():
        for batch, n in shapes:
            inputs = [A.requires_grad_() for A in problem.kind.random(batch, n, torch.float64)]

            def step(f: Peer, inputs: list = inputs) -> object:
                return torch.autograd.grad(f(*inputs).sum(), inputs)

            best = race({s: lambda f=f: step(f) for s, f in problem.systems.items()}, 0.15, 3)
            rows.append([name, f"{batch} x {n}", *versus(best)])
    print(
        "\nForward + backward, float64: time of rootpool, and how many times longer the others take\n"
    )
    print(table(["function", "batch x n", "rootpool", "others"], rows))


def values(quick: bool) -> None:
    """Values alone, against torch and scipy, which has no gradients."""
    import scipy.linalg

    contestants: dict[str, tuple[Kind, dict[str, Callable]]] = {
        "sqrtm": (SYMMETRIC, {"rootpool": sqrtm, "scipy sqrtm": scipy.linalg.sqrtm}),
        "logm": (SYMMETRIC, {"rootpool": logm, "scipy logm": scipy.linalg.logm}),
        "expm": (SYMMETRIC, {"rootpool": expm, "scipy expm": scipy.linalg.expm}),
        "powm(A, 0.3)": (
            SYMMETRIC,
            {
                "rootpool": lambda A: powm(A, 0.3),
                "scipy fractional_matrix_power": lambda A: scipy.linalg.fractional_matrix_power(
                    A, 0.3
                ),
            },
        ),
        "polar": (TALL, {"rootpool": polar, "scipy polar": scipy.linalg.polar}),
        "eigvalsh": (SYMMETRIC, {"rootpool": eigvalsh, "scipy eigvalsh": scipy.linalg.eigvalsh}),
        "svdvals": (TALL, {"rootpool": svdvals, "scipy svdvals": scipy.linalg.svdvals}),
    }
    newest = {"sqrtm": "matrix_sqrth", "expm": "matrix_exp", "polar": "polar"}
    newest |= {"eigvalsh": "eigvalsh", "svdvals": "svdvals"}
    for name, theirs in newest.items():
        if hasattr(torch.linalg, theirs):
            contestants[name][1][f"torch {theirs}"] = getattr(torch.linalg, theirs)
    shapes = [(1, 4), (16, 64)] if quick else [(1, 4), (1, 32), (1, 128), (16, 64)]
    rows = []
    for name, (kind, systems) in contestants.items():
        for batch, n in shapes:
            (A,) = kind.random(batch, n, torch.float64)
            X = A.numpy()
            best = race(
                {
                    s: (lambda f=f, X=X: f(X)) if "scipy" in s else (lambda f=f, A=A: f(A))
                    for s, f in systems.items()
                },
                0.1,
                3,
            )
            rows.append([name, f"{batch} x {n}", *versus(best)])
    print("\nValues alone, float64: time of rootpool, and how many times longer the others take\n")
    print(table(["function", "batch x n", "rootpool", "others"], rows))


PARTS = {f.__name__: f for f in (accuracy, low_rank, roots, functions, values)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer shapes and gaps")
    parser.add_argument(
        "--parts", nargs="+", choices=PARTS, default=list(PARTS), help="these alone"
    )
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", category=FutureWarning)
    if "accuracy" in arguments.parts:
        print(machine())
    for part in arguments.parts:
        PARTS[part](arguments.quick)


if __name__ == "__main__":
    main()
