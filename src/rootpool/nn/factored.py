"""Normalisations that need a definite matrix: the log-Cholesky coordinates, and the sparse precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.linalg import LinAlgError

from rootpool.linalg.checks import first_index, may_check
from rootpool.linalg.parameters import check_finite, check_positive
from rootpool.linalg.products import product

from .method import Method, check_iterations

__all__ = ["LogCholesky", "SparsePrecision"]


def _cholesky(P: Tensor, method: Method, advice: str) -> Tensor:
    """The factor L of ``P = L L^T``; an error that names the matrix where P is not definite to rounding."""
    L, info = torch.linalg.cholesky_ex(P)
    if may_check(info) and bool(info.any()):
        item = first_index(info != 0)
        raise LinAlgError(
            f"{method.name}: covariance {list(item)} is not positive definite to the rounding of {P.dtype}; "
            f"{advice}"
        )
    # Where nobody can look, NaN instead of the part that was factored.
    return torch.where((info == 0)[..., None, None], L, torch.nan)


def _identity(P: Tensor) -> Tensor:
    return torch.eye(P.shape[-1], dtype=P.dtype, device=P.device)


@dataclass(frozen=True)
class LogCholesky(Method):
    r"""The Cholesky factor of ``P + ridge * I`` with the logarithm of its diagonal (Chen et al. 2025).

    .. math:: Q = T + T^T, \qquad P + \mathrm{ridge}\, I = L L^T, \qquad
        T = \mathrm{tril}_{-1}(L) + \log \mathrm{diag}(L) .

    **It depends on the order of the channels**, as the factor does: permuted channels are not permuted
    results, and a channel is described by what those before it have left. A network can learn for one order;
    nothing else here depends on it.

    The ridge is absolute. Where it is lost in the rounding of the largest eigenvalue, a singular covariance
    has no factor, which is an error. Reference: Chen et al., Understanding matrix function normalizations in
    covariance pooling through the lens of Riemannian geometry ("Cho-TMLR"), ICLR 2025.

    >>> LogCholesky(ridge=1e-12)(torch.tensor([[1.0, 2.0], [2.0, 5.0]]))
    tensor([[0., 2.],
            [2., 0.]])
    """

    name: ClassVar[str] = "log-cholesky"
    source: ClassVar[str] = "follow-up"
    use: ClassVar[str] = (
        "to compare with it: a logarithm without eigenvalues; the order of channels matters"
    )
    symmetry: ClassVar[str] = "none"

    ridge: float = 1e-6

    def __post_init__(self) -> None:
        check_positive("LogCholesky.ridge", self.ridge)

    def __call__(self, P: Tensor) -> Tensor:
        advice = "raise its ridge, or divide the features by a constant"
        L = _cholesky(P + self.ridge * _identity(P), self, advice)
        T = L.tril(-1) + torch.diag_embed(L.diagonal(dim1=-2, dim2=-1).log())
        return T + T.mT


@dataclass(frozen=True)
class SparsePrecision(Method):
    r"""A sparse inverse covariance by proximal steps (iSICE, Rahman et al. 2023).

    With :math:`C = P / \mathrm{tr} P` and the inverse
    :math:`(M / \mathrm{tr} M + \mathrm{ridge}\, I)^{-1} / \mathrm{tr} M` of M, which exists for every
    covariance, :math:`\Theta` begins as the inverse of C. Each step moves the positive and the negative part
    of its entries,

    .. math::
        \Theta_\pm \leftarrow \max\left(
            \Theta_\pm - \eta_k (\pm (C - \Theta^{-1}) + \mathrm{sparsity}), 0 \right), \qquad
        \eta_k = \mathrm{step} \left( 1 - \tfrac{k}{K - 1} \right), \quad k = 0, \dots, K - 1 .

    The result is :math:`\Theta / \sqrt{\mathrm{tr}\, \Theta}`. It does not change with the scale of the
    features.

    Args:
        sparsity: how much each step takes from every entry.
        step: the length of the first step; the last one is 0 (if there are several), as published.
        iterations: K.
        ridge: relative to the trace. The authors' inverse is seven steps of Newton-Schulz of a matrix with
            a random ridge of 1e-9, drawn anew at evaluation, too; they raise a zero to :math:`(3/2)^{14}`.
            So does this ridge.

    Reference: Rahman et al., Learning partial correlation based deep visual representation for image
    classification, CVPR 2023.

    >>> P = torch.tensor([[2.0, 0.01], [0.01, 2.0]])  # nearly independent: the correlation vanishes
    >>> SparsePrecision(sparsity=0.02)(P)
    tensor([[0.9..., 0.0000],
            [0.0000, 0.9...]])
    """

    name: ClassVar[str] = "isice"
    source: ClassVar[str] = "follow-up"
    use: ClassVar[str] = "to describe channels by partial correlations, most of them zero"
    symmetry: ClassVar[str] = "permutations"

    sparsity: float = 0.01
    step: float = 1.0
    iterations: int = 5
    ridge: float = 3.4e-3

    def __post_init__(self) -> None:
        check_iterations("SparsePrecision", self.iterations)
        check_positive("SparsePrecision.step", self.step)
        check_positive("SparsePrecision.ridge", self.ridge)
        check_finite("SparsePrecision.sparsity", self.sparsity)
        if self.sparsity < 0:
            raise ValueError(
                f"SparsePrecision.sparsity must not be negative, got {self.sparsity!r}"
            )

    def _inverse(self, M: Tensor, trace: Tensor) -> Tensor:
        advice = "shorten its step, or raise its ridge"
        L = _cholesky(M / trace + self.ridge * _identity(M), self, advice)
        # torch.cholesky_inverse has a wrong derivative in forward mode (pytorch issue 196682).
        W = torch.linalg.solve_triangular(L, _identity(L), upper=False)
        return product(W.mT, W) / trace

    def __call__(self, P: Tensor) -> Tensor:
        C = P / _trace(P)
        theta = self._inverse(C, torch.ones_like(_trace(C)))
        for k in range(self.iterations):
            eta = self.step * (1 - k / max(self.iterations - 1, 1))
            if eta == 0:
                break  # nothing moves any more
            g = C - self._inverse(theta, _trace(theta))
            positive = (theta.relu() - eta * (g + self.sparsity)).relu()
            negative = ((-theta).relu() - eta * (self.sparsity - g)).relu()
            theta = positive - negative
            theta = (theta + theta.mT) / 2
        return theta / _trace(theta).sqrt()


def _trace(P: Tensor) -> Tensor:
    """The trace, ``(..., 1, 1)``; 1 for a zero matrix."""
    trace = P.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
    return torch.where(trace == 0, 1, trace)
