r"""Distances of Gaussians: Bures-Wasserstein between covariances, Frechet between features.

For factors of two covariances, :math:`A = X^H X` and :math:`B = Y^H Y`, the Wasserstein distance of the
centred Gaussians is the distance of the best aligned factors,

.. math:: d^2 = \mathrm{tr} A + \mathrm{tr} B - 2\, \mathrm{tr} (A^{1/2} B A^{1/2})^{1/2}
              = \|X\|^2 + \|Y\|^2 - 2 \|X Y^H\|_*
              = \|X - Q Y\|^2 + \|Y - Q^H Q\, Y\|^2,

with the polar factor Q of :math:`X Y^H`. The last form subtracts no large numbers: the distance of close
Gaussians keeps its digits and is never negative. As Q is the best alignment, the gradient needs no
derivative of it:

.. math:: \bar X = 2 g\, (X - Q Y), \qquad \bar Y = 2 g\, (Y - Q^H X).

Nothing is divided by. When that is differentiated once more, Q changes with X and Y by the derivative
of :func:`orthogonalize`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from .checks import check_alike, check_matrix, check_range
from .decompose import roundoff, svd_forward
from .functions import apply_function
from .polar import PolarFactor
from .precision import without_autocast
from .scalar import FUNCTIONS
from .smooth import Factors, Smooth, differentiable

# --------------------------------------------------------------------------------------------------
# The distance of two factors


def _reduced(X: Tensor) -> tuple[Tensor | None, Tensor]:
    """``X = E T`` with orthonormal columns E and at most as many rows of T as columns; E or None."""
    if X.shape[-2] <= X.shape[-1]:
        return None, X
    E, T = torch.linalg.qr(X)
    return E, T


def _expanded(E: Tensor | None, T: Tensor) -> Tensor:
    return T if E is None else E @ T


def _unit(T: Tensor) -> Tensor:
    """The largest entry: in this unit products stay within the range, and alignments do not change."""
    largest = pad(T.abs().flatten(-2), (0, 1)).amax(-1)[..., None, None]
    return torch.where(largest == 0, 1, largest)


def _inner(A: Tensor, B: Tensor) -> Tensor:
    return (A.conj() * B).real.sum((-2, -1))


def _squares(A: Tensor) -> Tensor:
    return _inner(A, A)


@dataclass(frozen=True)
class _Apart(Smooth):
    """``d2`` of ``Z``, X above Y. The factors are X, Y and half of the gradient."""

    name = "distances of Gaussians"

    rows: int  # of X

    def value(self, Z: Tensor) -> tuple[Tensor, ...]:
        X, Y = self._split(Z)
        (E_X, T_X), (E_Y, T_Y) = _reduced(X), _reduced(Y)
        U, s, Vh = svd_forward((T_X / _unit(T_X)) @ (T_Y / _unit(T_Y)).mH, False, None)
        Q = (U * (s > roundoff(s)).unsqueeze(-2)) @ Vh
        apart_X, apart_Y = T_X - Q @ T_Y, T_Y - Q.mH @ T_X
        squared = _squares(apart_X) + _squares(T_Y - Q.mH @ (Q @ T_Y))
        apart = torch.cat([_expanded(E_X, apart_X), _expanded(E_Y, apart_Y)], -2)
        return squared, X.clone(), Y.clone(), apart

    def like_value(self, A: Tensor, factors: Factors) -> Tensor:
        return factors[2][..., 0, 0].real

    def jvp(self, factors: Factors, dZ: Tensor) -> Tensor:
        return 2 * _inner(factors[2], dZ)

    def vjp(self, factors: Factors, g: Tensor) -> Tensor:
        return 2 * g[..., None, None] * factors[2]

    def vjp_of_jvp(self, factors: Factors, g: Tensor, dZ: Tensor) -> Tensor:
        return 2 * g[..., None, None] * self._change(factors, dZ)

    def jvp_of_jvp(self, factors: Factors, v: Tensor, w: Tensor) -> Tensor:
        return 2 * _inner(self._change(factors, v), w)

    def _split(self, Z: Tensor) -> tuple[Tensor, Tensor]:
        return Z[..., : self.rows, :], Z[..., self.rows :, :]

    def _change(self, factors: Factors, dZ: Tensor) -> Tensor:
        """The change of X - Q Y and Y - Q^H X along ``dZ``."""
        (X, Y, _), (dX, dY) = factors, self._split(dZ)
        x, y = _unit(X), _unit(Y)
        unit = torch.maximum(x, y)  # of the change of Q, which grows as X and Y tend to zero
        cross = (X / x) @ (Y / y).mH
        change = (dX * (unit / x)) @ (Y / y).mH + (X / x) @ (dY * (unit / y)).mH
        wide = cross.shape[-2] < cross.shape[-1]
        nearest = PolarFactor()
        Q, *aligned = nearest.value(cross.mH if wide else cross)
        dQ = nearest.jvp(aligned, change.mH if wide else change)
        Q, dQ = (Q.mH, dQ.mH) if wide else (Q, dQ)
        return torch.cat([dX - dQ @ (Y / unit) - Q @ dY, dY - dQ.mH @ (X / unit) - Q.mH @ dX], -2)


@without_autocast
def _squared_distance(X: Tensor, Y: Tensor) -> Tensor:
    # torch.broadcast_shapes would import half of the compiler.
    lead = torch.broadcast_tensors(X.new_empty(X.shape[:-2]), Y.new_empty(Y.shape[:-2]))[0].shape
    Z = torch.cat([A.expand(*lead, *A.shape[-2:]) for A in (X, Y)], -2)
    return differentiable(_Apart(X.shape[-2]), Z)


# --------------------------------------------------------------------------------------------------
# For users


def bures_wasserstein(A: Tensor, B: Tensor) -> Tensor:
    r"""Squared Bures-Wasserstein distance of positive semi-definite matrices.

    .. math:: d^2 = \mathrm{tr} A + \mathrm{tr} B - 2\, \mathrm{tr} (A^{1/2} B A^{1/2})^{1/2}
                  = \min_{Q^T Q = I} \|A^{1/2} - Q B^{1/2}\|^2

    computed by the last form, so that it is never negative and keeps its digits where A and B are
    close. The gradient is finite at ``A == B`` (zero) and at ties. At singular matrices it is taken
    along changes that keep the rank, as for :func:`sqrtm`.

    Args:
        A: symmetric or complex Hermitian matrices ``(..., n, n)``.
        B: the same shape and dtype, or batch dimensions that broadcast.

    Returns:
        ``d^2`` ``(...)``. Its root is a metric, whose gradient is infinite at ``A == B``.

    Reference: Bhatia, Jain and Lim, On the Bures-Wasserstein distance between positive definite
    matrices, Expositiones Mathematicae 37(2), 2019.

    >>> bures_wasserstein(4 * torch.eye(3), torch.eye(3))
    tensor(3.)
    """
    # Each root for itself, and before anything is widened: it knows what half precision has rounded.
    roots = [apply_function(M, FUNCTIONS["sqrt"], "bures_wasserstein") for M in (A, B)]
    same = A.shape[-1] == B.shape[-1]
    check_alike(A, B, same, "bures_wasserstein", "matrices of one size and dtype")
    distance = _squared_distance(*roots)
    check_range(distance[..., None, None], "bures_wasserstein", A, B, advice="scale the matrices")
    return distance


@without_autocast
def frechet_distance(X: Tensor, Y: Tensor) -> Tensor:
    r"""Frechet distance of the Gaussians that fit two sets of features (FID, FAD, ...).

    .. math:: d^2 = |\mu_X - \mu_Y|^2 + \mathrm{tr} \left( C_X + C_Y
                    - 2 (C_X^{1/2} C_Y C_X^{1/2})^{1/2} \right)

    with the covariances divided by N - 1 and M - 1. They are never formed: with centred features
    :math:`C_X = X^T X / (N - 1)`, the last trace is the nuclear norm of :math:`X Y^T`, which is exact
    where covariances are singular (fewer samples than dimensions) and roots of their products lose
    half of the digits. The gradient divides by nothing, so ties and singular covariances are
    ordinary.

    Args:
        X: features in rows, ``(..., N, d)`` with N of at least 2, real or complex.
        Y: the same with M rows, ``(..., M, d)``.

    Returns:
        ``d^2`` ``(...)``, never negative. Second derivatives are exact, but decompose N x M matrices.

    Reference: Heusel et al., GANs trained by a two time-scale update rule converge to a local Nash
    equilibrium, NeurIPS 2017.

    >>> X = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    >>> frechet_distance(X, X + 3)
    tensor(18.)
    """
    for features in (X, Y):
        check_matrix(features, "frechet_distance")
        if features.shape[-2] < 2:
            raise ValueError(
                "frechet_distance expects two or more samples in rows, (..., N, d), got "
                f"{tuple(features.shape)}"
            )
    same = X.shape[-1] == Y.shape[-1]
    check_alike(X, Y, same, "frechet_distance", "features of one dimension and dtype")
    means = X.mean(-2, keepdim=True), Y.mean(-2, keepdim=True)
    centred = (
        (t - mean) / math.sqrt(t.shape[-2] - 1) for t, mean in zip((X, Y), means, strict=True)
    )
    between = _squares(means[0] - means[1])
    distance = between + _squared_distance(*centred)
    check_range(
        distance[..., None, None], "frechet_distance", X, Y, item="X", advice="scale the features"
    )
    return distance
