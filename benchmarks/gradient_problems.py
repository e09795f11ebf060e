"""Problems with ties whose gradients are known to 20 digits, by rootpool and by what users write in torch.

Every problem is a number that is a smooth function of its inputs, although eigenvalues or singular values of
the first one come in two pairs as close as one likes. The same number is computed in 80 digits by mpmath.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import mpmath
import torch
from torch import Tensor

from rootpool import linalg

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import matrices
import oracles

__all__ = ["PROBLEMS", "SYMMETRIC", "TALL", "Kind", "Problem", "by_eigh", "few_samples"]

Map = Callable[..., Tensor]
N = 4  # side of the matrices with ties
WEIGHT = matrices.random(N, N, seed=11).float()  # the same numbers in both precisions
Inputs = tuple[Tensor, ...]


@dataclass(frozen=True)
class Kind:
    """Inputs of a function: with two pairs of values that differ by a gap, or random ones of any size."""

    tied: Callable[[float], Inputs]
    random: Callable[[int, int, torch.dtype], Inputs]
    symmetric: bool = False


@dataclass(frozen=True)
class Problem:
    """Functions by system, the number that ``loss`` makes of their results, and that with mpmath."""

    kind: Kind
    systems: dict[str, Map]
    loss: Callable[[Tensor], Tensor]
    digits: Callable[..., mpmath.mpf]

    def __post_init__(self) -> None:
        for missing in _MISSING & self.systems.keys():
            del self.systems[missing]

    def gradient(self, system: str, inputs: Inputs) -> Tensor:
        """Of all inputs, as one vector."""
        leaves = [A.clone().requires_grad_() for A in inputs]
        gradients = torch.autograd.grad(self.loss(self.systems[system](*leaves)), leaves)
        if self.kind.symmetric:
            gradients = [matrices.symmetric(g) for g in gradients]
        return torch.cat([g.flatten() for g in gradients])

    def exact_gradient(self, inputs: Inputs) -> Tensor:
        """By differences in 80 digits, entry by entry."""
        slopes = []
        for k, A in enumerate(inputs):
            for entry in torch.eye(A.numel(), dtype=torch.float64).reshape(-1, *A.shape):
                directions = [torch.zeros_like(B, dtype=torch.float64) for B in inputs]
                directions[k] = matrices.symmetric(entry) if self.kind.symmetric else entry
                slopes.append(oracles.slope(self.digits, inputs, directions))
        return torch.tensor(slopes, dtype=torch.float64)


# --------------------------------------------------------------------------------------------------
# Inputs


def _pairs(gap: float) -> Tensor:
    return torch.tensor([1, 1 + gap, 2, 2 + gap], dtype=torch.float64)


def _tied_matrix(gap: float, rows: int = N) -> Tensor:
    """With a positive determinant, if it is square."""
    U, V = matrices.orthogonal(rows, 5)[:, :N], matrices.orthogonal(N, 6)
    A = (U * _pairs(gap)) @ V.mT
    return A.flip(0) if rows == N and A.det() < 0 else A


def _tied_samples(gap: float) -> Tensor:
    """Seven in rows, around zero."""
    rows = matrices.random(7, N, seed=5)
    U = torch.linalg.qr(rows - rows.mean(0))[0]
    return (U * _pairs(gap)) @ matrices.orthogonal(N, 6).mT


def _covariance(batch: int, n: int, dtype: torch.dtype, seed: int = 0) -> Tensor:
    X = matrices.random(batch, n, 2 * n, dtype=dtype, seed=seed)
    return matrices.symmetric(X @ X.mT) / (2 * n)


def few_samples(dtype: torch.dtype) -> Inputs:
    """Fewer than dimensions: both covariances are singular."""
    return tuple(matrices.random(4, 9, seed=seed).to(dtype) for seed in (0, 1))


SYMMETRIC = Kind(
    lambda gap: (matrices.with_spectrum(_pairs(gap)),),
    lambda batch, n, dtype: (_covariance(batch, n, dtype),),
    symmetric=True,
)
WITH_EXPONENT = Kind(
    lambda gap: (*SYMMETRIC.tied(gap), torch.tensor([[0.3]]).double()),
    lambda *size: (_covariance(*size), torch.full((size[0], 1, 1), 0.3, dtype=size[2])),
    symmetric=True,
)
SQUARE = Kind(
    lambda gap: (_tied_matrix(gap),),
    lambda batch, n, dtype: (matrices.random(batch, n, n, dtype=dtype),),
)
TALL = Kind(
    lambda gap: (_tied_matrix(gap, N + 2),),
    lambda batch, n, dtype: (matrices.random(batch, 2 * n, n, dtype=dtype),),
)
SAMPLES = Kind(lambda gap: (_tied_samples(gap),), TALL.random)
TWO_SETS = Kind(
    lambda gap: (_tied_samples(gap), matrices.random(7, N, seed=7)),
    lambda *size: tuple(
        matrices.random(size[0], 3 * size[1], size[1], dtype=size[2], seed=k) for k in (0, 1)
    ),
)
TWO_COVARIANCES = Kind(
    lambda gap: tuple(matrices.with_spectrum(_pairs(gap), seed) for seed in (0, 1)),
    lambda *size: tuple(_covariance(*size, seed=seed) for seed in (0, 1)),
    symmetric=True,
)


# --------------------------------------------------------------------------------------------------
# What users write in torch


def by_eigh(f: Map) -> Map:
    """``U f(lam) U^T``, differentiated by autograd."""

    def function(A: Tensor) -> Tensor:
        lam, U = torch.linalg.eigh(A)
        return (U * f(lam).unsqueeze(-2)) @ U.mT

    return function


def _power_by_eigh(A: Tensor, p: Tensor) -> Tensor:
    return by_eigh(lambda lam: lam ** p[..., 0])(A)


def _projector_by_eigh(A: Tensor) -> Tensor:
    U = torch.linalg.eigh(A).eigenvectors[..., A.shape[-1] // 2 :]
    return U @ U.mT


def _polar_by_svd(A: Tensor) -> Tensor:
    U, _, Vh = torch.linalg.svd(A, full_matrices=False)
    return U @ Vh


def _rotation_by_svd(A: Tensor) -> Tensor:
    U, _, Vh = torch.linalg.svd(A)
    sign = torch.linalg.det(U @ Vh).sign()
    D = torch.cat([torch.ones_like(A[..., 0, 1:]), sign.unsqueeze(-1)], -1)
    return (U * D.unsqueeze(-2)) @ Vh


def _projector_on(basis: Map) -> Map:
    def projector(X: Tensor) -> Tensor:
        V = basis(X)
        return V @ V.mT

    return projector


def _principal_by_svd(X: Tensor) -> Tensor:
    X = X - X.mean(-2, keepdim=True)
    return torch.linalg.svd(X, full_matrices=False).Vh[..., : X.shape[-1] // 2, :].mT


def _covariances(X: Tensor, Y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    X, Y = ((Z - Z.mean(-2, keepdim=True)) / (Z.shape[-2] - 1) ** 0.5 for Z in (X, Y))
    return X.mT @ X, X.mT @ Y, Y.mT @ Y


def _correlations_by_eigh(X: Tensor, Y: Tensor) -> Tensor:
    XX, XY, YY = _covariances(X, Y)
    root = by_eigh(torch.rsqrt)
    return torch.linalg.svdvals(root(XX) @ XY @ root(YY))


def _correlations_by_cholesky(X: Tensor, Y: Tensor) -> Tensor:
    XX, XY, YY = _covariances(X, Y)
    left = torch.linalg.solve_triangular(torch.linalg.cholesky(XX), XY, upper=False)
    both = torch.linalg.solve_triangular(torch.linalg.cholesky(YY), left.mT, upper=False)
    return torch.linalg.svdvals(both)


def _trace(A: Tensor) -> Tensor:
    return A.diagonal(dim1=-2, dim2=-1).sum(-1)


def _distance_by(root: Map) -> Map:
    def distance(A: Tensor, B: Tensor) -> Tensor:
        half = root(A)
        return _trace(A + B - 2 * root(half @ B @ half))

    return distance


def _distance_by_eigvals(A: Tensor, B: Tensor) -> Tensor:
    return _trace(A + B) - 2 * torch.linalg.eigvals(A @ B).sqrt().real.sum(-1)


def _of_features(distance: Map) -> Map:
    def between(X: Tensor, Y: Tensor) -> Tensor:
        apart = (X.mean(-2) - Y.mean(-2)).square().sum(-1)
        A, _, B = _covariances(X, Y)
        return apart + distance(A, B)

    return between


DISTANCES = {
    "torch eigh": _distance_by(by_eigh(torch.sqrt)),
    "torch matrix_sqrth": _distance_by(lambda A: torch.linalg.matrix_sqrth(A)),
    "torch eigvals(A B)": _distance_by_eigvals,
}
# Not in every version of torch.
_MISSING = {
    f"torch {name}" for name in ("polar", "matrix_sqrth") if not hasattr(torch.linalg, name)
}


# --------------------------------------------------------------------------------------------------
# The table


def _of_matrix(kind: Kind, digits: Callable, **systems: Map) -> Problem:
    """A matrix, of which all entries count."""
    return Problem(
        kind,
        {name.replace("_", " ", 1): f for name, f in systems.items()},
        lambda F: (F * WEIGHT.to(F.dtype)).sum(),
        lambda *inputs: oracles.weighted(WEIGHT, digits(*inputs)),
    )


def _of_values(kind: Kind, digits: Callable, **systems: Map) -> Problem:
    """Values, in whatever order."""
    return Problem(
        kind,
        {name.replace("_", " ", 1): f for name, f in systems.items()},
        lambda values: values.sin().sum(),
        lambda *inputs: mpmath.fsum(map(mpmath.sin, digits(*inputs))),
    )


def _squared(X: mpmath.matrix) -> mpmath.matrix:
    rows, _ = oracles.centred(X)
    return rows.T * rows


def _half(function: Map) -> Map:
    return lambda A: function(A, A.shape[-1] // 2)


PROBLEMS = {
    "expm": _of_matrix(
        SYMMETRIC,
        mpmath.expm,
        rootpool=linalg.expm,
        torch_eigh=by_eigh(torch.exp),
        torch_matrix_exp=torch.linalg.matrix_exp,
    ),
    "inverse_root(A, 1)": _of_matrix(
        SYMMETRIC,
        lambda A: A**-1,
        rootpool=lambda A: linalg.inverse_root(A, 1),
        torch_eigh=by_eigh(torch.reciprocal),
        torch_inv=torch.linalg.inv,
    ),
    "inverse_root(A, 4)": _of_matrix(
        SYMMETRIC,
        lambda A: oracles.power(A, -0.25),
        rootpool=lambda A: linalg.inverse_root(A, 4),
        torch_eigh=by_eigh(lambda lam: lam**-0.25),
    ),
    "powm(A, tensor)": _of_matrix(
        WITH_EXPONENT,
        lambda A, p: oracles.power(A, p[0, 0]),
        rootpool=lambda A, p: linalg.powm(A, p[..., 0, 0]),
        torch_eigh=_power_by_eigh,
    ),
    "eigvalsh": _of_values(
        SYMMETRIC,
        lambda A: mpmath.eigsy(A, eigvals_only=True),
        rootpool=linalg.eigvalsh,
        torch_eigvalsh=torch.linalg.eigvalsh,
    ),
    "svdvals": _of_values(
        TALL,
        oracles.singular_values,
        rootpool=linalg.svdvals,
        torch_svdvals=torch.linalg.svdvals,
    ),
    "orthogonalize": _of_matrix(
        SQUARE,
        oracles.polar_factor,
        rootpool=linalg.orthogonalize,
        torch_svd=_polar_by_svd,
        torch_polar=lambda A: torch.linalg.polar(A)[0],
    ),
    "polar: H": _of_matrix(
        TALL,
        lambda A: oracles.power(A.T * A, 0.5),
        rootpool=lambda A: linalg.polar(A).H,
        torch_eigh=lambda A: by_eigh(torch.sqrt)(A.mT @ A),
        torch_polar=lambda A: torch.linalg.polar(A)[1],
    ),
    "rotation": _of_matrix(
        SQUARE,
        oracles.nearest_rotation,
        rootpool=linalg.rotation,
        torch_svd=_rotation_by_svd,
    ),
    "leading_projector": _of_matrix(
        SYMMETRIC,
        lambda A: oracles.projector(A, N // 2),
        rootpool=_half(linalg.leading_projector),
        torch_eigh=_projector_by_eigh,
    ),
    "principal_subspace": _of_matrix(
        SAMPLES,
        lambda X: oracles.projector(_squared(X), N // 2),
        rootpool=_projector_on(_half(linalg.principal_subspace)),
        torch_svd=_projector_on(_principal_by_svd),
    ),
    "canonical_correlations": _of_values(
        TWO_SETS,
        lambda X, Y: oracles.correlations(X, Y, 0),
        rootpool=linalg.canonical_correlations,
        torch_eigh=_correlations_by_eigh,
        torch_cholesky=_correlations_by_cholesky,
    ),
    "bures_wasserstein": Problem(
        TWO_COVARIANCES,
        {"rootpool": linalg.bures_wasserstein, **DISTANCES},
        torch.sum,
        oracles.bures,
    ),
    "frechet_distance": Problem(
        TWO_SETS,
        {
            "rootpool": linalg.frechet_distance,
            **{name: _of_features(distance) for name, distance in DISTANCES.items()},
        },
        torch.sum,
        oracles.frechet,
    ),
}
