"""Functions of singular values, alignment, weights and the top of large matrices, against torch and peers.

Claim: rotations are as right and as fast as roma's; a function of singular values takes as long as an SVD and
its gradient; weights cost little; k eigenvectors of a large matrix take a fraction of the time of all.

    python benchmarks/features.py            the tables (about two minutes)
    python benchmarks/features.py --quick    small inputs

What is not installed (roma, kornia, scipy) has no row.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable

import torch
from timing import duration, machine, race, table
from torch import Tensor

from rootpool.linalg import (
    affine_invariant_distance,
    align,
    eigh,
    leading_projector,
    low_rank,
    null_vectors,
    rotation,
    singular_value_threshold,
    stable,
    svd,
    topk_eigh,
)
from rootpool.nn import covariance_pool

Function = Callable[[Tensor], Tensor]


def has(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def gradient(f: Function, A: Tensor) -> Callable[[], object]:
    A = A.clone().requires_grad_()
    G = torch.randn(f(A).shape, dtype=A.dtype, generator=torch.Generator().manual_seed(1))
    return lambda: torch.autograd.grad(f(A), A, G)


def compare(title: str, contestants: dict[str, Function], A: Tensor, seconds: float) -> None:
    """The time of the value, and of value and gradient."""
    values = race({name: lambda f=f: f(A) for name, f in contestants.items()}, seconds, rounds=3)
    both = race({name: gradient(f, A) for name, f in contestants.items()}, seconds, rounds=3)
    rows = [[name, duration(values[name]), duration(both[name])] for name in contestants]
    print(f"\n\n{title}, {tuple(A.shape)} {str(A.dtype).removeprefix('torch.')}\n")
    print(table(["function", "value", "with gradient"], rows))


def by_svd(decompose: Callable, f: Function) -> Function:
    def call(A: Tensor) -> Tensor:
        U, s, Vh = decompose(A, full_matrices=False)
        return (U * f(s).unsqueeze(-2)) @ Vh

    return call


def rotations(batch: int, seconds: float) -> None:
    A = torch.randn(batch, 3, 3, generator=torch.Generator().manual_seed(0))
    contestants: dict[str, Function] = {"rotation": rotation}
    if has("roma"):
        import roma

        contestants["roma.special_procrustes"] = roma.special_procrustes
    compare("Nearest rotations", contestants, A, seconds)
    exact = rotation(A.double())
    print("\nLargest error of an entry:\n")
    errors = [[name, f"{(f(A) - exact).abs().max():.1e}"] for name, f in contestants.items()]
    print(table(["function", "error"], errors))
    X = torch.randn(batch, 16, 3, generator=torch.Generator().manual_seed(0))
    Y = X.flip(-2).contiguous()
    aligners: dict[str, Function] = {"align": lambda X: align(X, Y).rotation}
    if has("roma"):
        aligners["roma.rigid_points_registration"] = lambda X: roma.rigid_points_registration(X, Y)[
            0
        ]
    compare("Alignment of 16 points", aligners, X, seconds)


def functions(shape: tuple[int, ...], seconds: float) -> None:
    A = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    k = min(shape[-2:]) // 2
    kept = torch.arange(min(shape[-2:])) < k
    half: Function = lambda s: s * kept  # noqa: E731
    soft: Function = lambda s: (s - 1).clamp_min(0)  # noqa: E731
    contestants = {
        "low_rank": lambda A: low_rank(A, k),
        "low rank by torch.linalg.svd": by_svd(torch.linalg.svd, half),
        "low rank by rootpool's svd": by_svd(svd, half),
        "singular_value_threshold": lambda A: singular_value_threshold(A, 1.0),
        "threshold by torch.linalg.svd": by_svd(torch.linalg.svd, soft),
    }
    compare("Functions of singular values", contestants, A, seconds)


def others(batch: int, seconds: float) -> None:
    A = torch.randn(batch, 8, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    null = {
        "null_vectors": null_vectors,
        "by torch.linalg.svd": lambda A: torch.linalg.svd(A).Vh[..., -1:, :].mT,
    }
    compare("Null vectors", null, A, seconds)
    P = torch.randn(batch, 8, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    P, eye = P @ P.mT, torch.eye(8, dtype=torch.float64)

    def by_cholesky(P: Tensor) -> Tensor:
        L = torch.linalg.cholesky(P.flip(0) + eye)
        half = torch.linalg.solve_triangular(L, (P + P.mT) / 2, upper=False)
        return torch.linalg.eigvalsh(torch.linalg.solve_triangular(L, half.mT, upper=False))

    pairs = {
        "eigh(A, B=B)": lambda P: eigh((P + P.mT) / 2, B=P.flip(0) + eye).eigenvalues,
        "by Cholesky and torch's eigvalsh": by_cholesky,
    }
    compare("Eigenvalues of pairs", pairs, P, seconds)
    distance = {
        "affine_invariant_distance": lambda P: affine_invariant_distance(
            (P + P.mT) / 2, P.flip(0) + eye
        ),
        "by Cholesky and torch's eigvalsh": lambda P: by_cholesky(P).log().square().sum(-1),
    }
    compare("Affine-invariant distance", distance, P, seconds)


def homographies(batch: int, seconds: float) -> None:
    """A function of kornia, and the same inside ``stable()``, where it is not NaN by itself."""
    if not has("kornia"):
        return
    from kornia.geometry import find_homography_dlt

    X = torch.rand(batch, 8, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    Y = X.flip(-1) + 0.1 * X.square()

    def inside(X: Tensor) -> Tensor:
        with stable():
            return find_homography_dlt(X, Y, solver="svd")

    contestants = {
        "kornia.geometry.find_homography_dlt": lambda X: find_homography_dlt(X, Y, solver="svd"),
        "the same inside stable()": inside,
    }
    compare("Homographies", contestants, X, seconds)


def weights(batch: int, seconds: float) -> None:
    X = torch.randn(batch, 256, 196, generator=torch.Generator().manual_seed(0))
    attention = torch.rand(batch, 196, generator=torch.Generator().manual_seed(1))
    contestants = {
        "without weights": covariance_pool,
        "with a mask": lambda X: covariance_pool(X, weights=attention > 0.3),
        "with weights": lambda X: covariance_pool(X, weights=attention),
    }
    compare("Covariance pooling", contestants, X, seconds)


def top(n: int, k: int) -> None:
    if not has("scipy"):
        return
    generator = torch.Generator().manual_seed(0)
    Q = torch.linalg.qr(torch.randn(n, n, dtype=torch.float64, generator=generator))[0]
    lam = torch.rand(n, dtype=torch.float64, generator=generator)
    lam[:k] = 2 + torch.arange(k) // 2  # ties inside
    A = (Q * lam) @ Q.mT
    A = (A + A.mT) / 2

    def projector(A: Tensor) -> Tensor:
        U = topk_eigh(A, k).eigenvectors
        return U @ U.mT

    contestants = {"topk_eigh": projector, "leading_projector": lambda A: leading_projector(A, k)}
    compare(f"The projector on the {k} largest eigenvectors", contestants, A, 0.0)
    from scipy.sparse.linalg import eigsh

    value = race({"eigsh": lambda: eigsh(A.numpy(), k)}, 0.0, rounds=3)["eigsh"]
    print(f"\nscipy's eigsh, which has no gradient, takes {duration(value)} for the vectors alone.")
    ours, exact = (gradient(f, A)()[0] for f in contestants.values())
    print(f"\nTheir gradients differ by {(ours - exact).norm() / exact.norm():.0e}.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small inputs")
    quick = parser.parse_args().quick
    print(machine())
    seconds = 0.1 if quick else 1.0
    rotations(1000 if quick else 10000, seconds)
    functions((64, 16, 12) if quick else (256, 32, 24), seconds)
    others(64 if quick else 1024, seconds)
    homographies(16 if quick else 128, seconds)
    weights(2 if quick else 16, seconds)
    top(200 if quick else 1000, 8)


if __name__ == "__main__":
    main()
