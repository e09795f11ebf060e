"""Losses of the functions that solve whole problems: ours, the same in many digits, and inputs by kind."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import mpmath
import torch
from torch import Tensor

import matrices
import oracles
from rootpool.linalg import (
    bures_wasserstein,
    canonical_correlations,
    eigvalsh,
    expm,
    frechet_distance,
    inverse_root,
    leading_projector,
    orthogonalize,
    polar,
    principal_subspace,
    rotation,
    svdvals,
)

Tensors = tuple[Tensor, ...]


@dataclass(frozen=True)
class Loss:
    """A number from matrices; ``inputs`` by kind, those of "generic" have every derivative."""

    ours: Callable[..., Tensor]
    digits: Callable[..., mpmath.mpf]
    inputs: dict[str, Tensors]
    symmetric: bool = False  # the inputs are symmetric matrices


@functools.cache  # and so drawn outside of vmap
def weight(*shape: int) -> Tensor:
    return matrices.random(*shape, seed=11)


def with_singular_values(m: int, n: int, s: list[float]) -> Tensor:
    U, V = matrices.orthogonal(m, 5), matrices.orthogonal(n, 6)
    return (U[:, : len(s)] * torch.tensor(s, dtype=torch.float64)) @ V[:, : len(s)].mT


def with_eigenvalues(lam: list[float], seed: int = 0) -> Tensor:
    return matrices.with_spectrum(torch.tensor(lam, dtype=torch.float64), seed)


def weighted(f: Callable[[Tensor], Tensor], *shape: int) -> Callable[[Tensor], Tensor]:
    W = weight(*shape)
    return lambda A: (f(A) * W.to(A.dtype)).sum()


def weighted_digits(f: Callable, *shape: int) -> Callable:
    return lambda A: oracles.weighted(weight(*shape), f(A))


WEIGHTS = {d: weight(d, d) for d in (4, 6)}


def of_subspace(X: Tensor) -> Tensor:
    V = principal_subspace(X, 2)
    projector = (V.unsqueeze(-2) * V.unsqueeze(-3)).sum(-1)  # no product for autocast to round
    return (projector * WEIGHTS[X.shape[-1]].to(X.dtype)).sum()


def of_subspace_digits(X: mpmath.matrix) -> mpmath.mpf:
    rows, _ = oracles.centred(X)
    return oracles.weighted(weight(X.cols, X.cols), oracles.projector(rows.T * rows, 2))


def sines(values: list[mpmath.mpf]) -> mpmath.mpf:
    return mpmath.fsum(map(mpmath.sin, values))


TIES = [1.0, 1.0, 2.0, 2.0]
CLOSE = [1.0, 1.0 + 1e-9, 2.0, 2.0 + 1e-12]
GENERIC = [0.5, 1.1, 2.0, 3.7]
SQUARE = {
    "generic": (matrices.random(3, 3),),
    "equal": (2 * torch.eye(3, dtype=torch.float64),),
    "close": (with_singular_values(3, 3, [2.0, 2.0 - 1e-9, 1.0]),),
}
SYMMETRIC = {
    kind: (with_eigenvalues(lam),)
    for kind, lam in (("generic", GENERIC), ("repeated", TIES), ("close", CLOSE))
}
COVARIANCES = {
    "generic": (with_eigenvalues(GENERIC[:3]), with_eigenvalues([0.3, 0.9, 2.5], seed=1)),
    "repeated": (with_eigenvalues([1.0, 1.0, 2.0]), with_eigenvalues([3.0, 3.0, 1.0], seed=1)),
    "close": (with_eigenvalues(GENERIC[:3]), with_eigenvalues(GENERIC[:3]) * (1 + 1e-6)),
}
FEATURES = {
    "generic": (matrices.random(6, 3), matrices.random(5, 3, seed=1)),
    "fewer than dimensions": (matrices.random(3, 5), matrices.random(4, 5, seed=1)),
    "one set larger": (matrices.random(7, 4), matrices.random(3, 4, seed=1)),
}

LOSSES = {
    "orthogonalize": Loss(
        weighted(orthogonalize, 3, 3), weighted_digits(oracles.polar_factor, 3, 3), SQUARE
    ),
    "orthogonalize tall": Loss(
        weighted(orthogonalize, 4, 2),
        weighted_digits(oracles.polar_factor, 4, 2),
        {"generic": (matrices.random(4, 2),), "equal": (with_singular_values(4, 2, [2.0, 2.0]),)},
    ),
    "orthogonalize wide": Loss(
        weighted(orthogonalize, 2, 4),
        weighted_digits(oracles.polar_factor, 2, 4),
        {"generic": (matrices.random(2, 4),), "equal": (with_singular_values(2, 4, [2.0, 2.0]),)},
    ),
    "polar": Loss(
        weighted(lambda A: polar(A).H, 2, 2),
        weighted_digits(lambda A: oracles.power(A.T * A, 0.5), 2, 2),
        {"generic": (matrices.random(4, 2),), "equal": (with_singular_values(4, 2, [2.0, 2.0]),)},
    ),
    "rotation": Loss(
        weighted(rotation, 3, 3),
        weighted_digits(oracles.nearest_rotation, 3, 3),
        SQUARE
        | {
            "in a plane": (with_singular_values(3, 3, [2.0, 1.0, 0.0]),),
            "reflected": (-with_singular_values(3, 3, [2.0, 2.0, 1.0]),),
        },
    ),
    "leading_projector": Loss(
        weighted(lambda A: leading_projector(A, 2), 4, 4),
        weighted_digits(lambda A: oracles.projector(A, 2), 4, 4),
        SYMMETRIC | {"indefinite": (with_eigenvalues([-3.0, -3.0, 0.0, 1.0]),)},
        symmetric=True,
    ),
    "principal_subspace": Loss(
        of_subspace,
        of_subspace_digits,
        {
            "generic": (matrices.random(6, 4),),
            "fewer than dimensions": (matrices.random(4, 6),),
            "as many as kept": (matrices.random(3, 4),),
        },
    ),
    "eigvalsh": Loss(
        lambda A: eigvalsh(A).sin().sum(),
        lambda A: sines(mpmath.eigsy(A, eigvals_only=True)),
        SYMMETRIC,
        symmetric=True,
    ),
    "svdvals": Loss(
        lambda A: svdvals(A).sin().sum(),
        lambda A: sines(oracles.singular_values(A)),
        {
            "generic": (matrices.random(4, 3),),
            "wide": (matrices.random(2, 3),),
            "equal": (with_singular_values(4, 3, [2.0, 2.0, 1.0]),),
        },
    ),
    "expm": Loss(
        weighted(expm, 4, 4),
        weighted_digits(mpmath.expm, 4, 4),
        SYMMETRIC | {"indefinite": (with_eigenvalues([-3.0, -3.0, 0.0, 1.0]),)},
        symmetric=True,
    ),
    **{
        f"inverse_root {p}": Loss(
            weighted(lambda A, p=p: inverse_root(A, p), 4, 4),
            weighted_digits(lambda A, p=p: oracles.power(A, mpmath.mpf(-1) / p), 4, 4),
            SYMMETRIC,
            symmetric=True,
        )
        for p in (1, 2, 3, 4)
    },
    "bures_wasserstein": Loss(bures_wasserstein, oracles.bures, COVARIANCES, symmetric=True),
    "frechet_distance": Loss(frechet_distance, oracles.frechet, FEATURES),
    "canonical_correlations": Loss(
        lambda X, Y: canonical_correlations(X, Y, 0.1).sin().sum(),
        lambda X, Y: sines(oracles.correlations(X, Y, 0.1)),
        {
            "generic": (matrices.random(6, 3), matrices.random(6, 2, seed=1)),
            "fewer than dimensions": (matrices.random(3, 5), matrices.random(3, 2, seed=1)),
        },
    ),
}
