r"""Distances of Gaussians: Bures-Wasserstein between covariances, Frechet between features.

For factors of two covariances, :math:`A = X^T X` and :math:`B = Y^T Y`, the Wasserstein distance of the
centred Gaussians is that of the best aligned factors,

.. math:: d^2 = \mathrm{tr} A + \mathrm{tr} B - 2\, \mathrm{tr} (A^{1/2} B A^{1/2})^{1/2}
              = \|X\|^2 + \|Y\|^2 - 2 \|X Y^T\|_*
              = \|X - Q Y\|^2 + \|Y - Q^T Q\, Y\|^2,

with the polar factor Q of :math:`X Y^T`. The last form subtracts no large numbers: the distance of close
Gaussians keeps its digits and is never negative. As Q is the best alignment, the gradient needs no
derivative of it:

.. math:: \bar X = 2 g\, (X - Q Y), \qquad \bar Y = 2 g\, (Y - Q^T X).

Nothing is divided by. Q is a function of X and Y again when that is differentiated once more, with the
derivative of :func:`orthogonalize`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .checks import check_matrix, check_range, check_square, checked_like_forward, checks_enabled
from .decompose import roundoff, svd_forward
from .differentiation import mode_for
from .functions import sqrtm
from .polar import turned
from .precision import without_autocast

__all__ = ["bures_wasserstein", "frechet_distance"]


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


class _Alignment(torch.autograd.Function):
    """``(X, Y) -> d2, X - Q Y, Y - Q^T X`` for ``X`` ``(..., N, d)`` and ``Y`` ``(..., M, d)``."""

    generate_vmap_rule = True

    @staticmethod
    def forward(X: Tensor, Y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        (E_X, T_X), (E_Y, T_Y) = _reduced(X), _reduced(Y)
        U, s, Vh = svd_forward(T_X @ T_Y.mT, False, None)
        Q = (U * (s > roundoff(s)).unsqueeze(-2)) @ Vh
        apart_X, apart_Y = T_X - Q @ T_Y, T_Y - Q.mT @ T_X
        rest = T_Y - Q.mT @ (Q @ T_Y)
        squared = apart_X.square().sum((-2, -1)) + rest.square().sum((-2, -1))
        return squared, _expanded(E_X, apart_X), _expanded(E_Y, apart_Y)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        _, apart_X, apart_Y = output
        ctx.checked = checks_enabled()
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(apart_X, apart_Y)
        ctx.save_for_backward(*inputs, apart_X, apart_Y)
        ctx.save_for_forward(*inputs, apart_X, apart_Y)

    @staticmethod
    @checked_like_forward
    @without_autocast
    def backward(ctx: Any, g: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        if g is None:
            return None, None
        apart_X, apart_Y = _residuals(*ctx.saved_tensors)
        factor = 2 * g[..., None, None]
        return factor * apart_X, factor * apart_Y


class _AlignmentForward(_Alignment):
    @staticmethod
    def jvp(ctx: Any, dX: Tensor | None, dY: Tensor | None) -> tuple[Tensor | None, ...]:
        apart_X, apart_Y = _residuals(*ctx.saved_tensors)
        change = torch.zeros_like(apart_X[..., 0, 0])
        for direction, apart in ((dX, apart_X), (dY, apart_Y)):
            if direction is not None:
                change = change + 2 * (direction * apart).sum((-2, -1))
        return change, None, None


class _Residuals(torch.autograd.Function):
    """``(X, Y) -> X - Q Y, Y - Q^T X``, both known already; half of the gradient of the distance."""

    generate_vmap_rule = True

    @staticmethod
    def forward(X: Tensor, Y: Tensor, apart_X: Tensor, apart_Y: Tensor) -> tuple[Tensor, Tensor]:
        return apart_X.clone(), apart_Y.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.save_for_backward(*inputs[:2])
        ctx.save_for_forward(*inputs[:2])

    @staticmethod
    def backward(ctx: Any, W_X: Tensor, W_Y: Tensor) -> tuple[Tensor | None, ...]:
        # The Jacobian of a gradient is symmetric, so it is its own transpose.
        X, Y = ctx.saved_tensors
        return (*_change_of_residuals(X, Y, W_X, W_Y), None, None)


class _ResidualsForward(_Residuals):
    @staticmethod
    def jvp(ctx: Any, dX: Tensor | None, dY: Tensor | None, *_: Any) -> tuple[Tensor, Tensor]:
        X, Y = ctx.saved_tensors
        dX = torch.zeros_like(X) if dX is None else dX
        dY = torch.zeros_like(Y) if dY is None else dY
        return _change_of_residuals(X, Y, dX, dY)


def _change_of_residuals(X: Tensor, Y: Tensor, dX: Tensor, dY: Tensor) -> tuple[Tensor, Tensor]:
    Q, dQ = turned(X @ Y.mT, dX @ Y.mT + X @ dY.mT)
    return dX - dQ @ Y - Q @ dY, dY - dQ.mT @ X - Q.mT @ dX


def _residuals(X: Tensor, Y: Tensor, apart_X: Tensor, apart_Y: Tensor) -> tuple[Tensor, Tensor]:
    kind = mode_for(_Residuals, _ResidualsForward)
    residuals: tuple[Tensor, Tensor] = kind.apply(X, Y, apart_X, apart_Y)
    return residuals


def _squared_distance(X: Tensor, Y: Tensor) -> Tensor:
    squared: Tensor = mode_for(_Alignment, _AlignmentForward).apply(X, Y)[0]
    return squared


# --------------------------------------------------------------------------------------------------
# For users


@without_autocast
def bures_wasserstein(A: Tensor, B: Tensor) -> Tensor:
    r"""Squared Bures-Wasserstein distance of positive semi-definite matrices.

    .. math:: d^2 = \mathrm{tr} A + \mathrm{tr} B - 2\, \mathrm{tr} (A^{1/2} B A^{1/2})^{1/2}
                  = \min_{Q^T Q = I} \|A^{1/2} - Q B^{1/2}\|^2

    computed by the last form, so that it is never negative and keeps its digits where A and B are
    close. The gradient is finite at ``A == B`` (zero) and at ties. At singular matrices it is taken
    along changes that keep the rank, as for :func:`sqrtm`.

    Args:
        A: symmetric matrices ``(..., n, n)``, float32 or float64.
        B: the same shape and dtype, or batch dimensions that broadcast.

    Returns:
        ``d^2`` ``(...)``. Its root is a metric, whose gradient is infinite at ``A == B``.

    Reference: Bhatia, Jain and Lim, On the Bures-Wasserstein distance between positive definite
    matrices, Expositiones Mathematicae 37(2), 2019.

    >>> bures_wasserstein(4 * torch.eye(3), torch.eye(3))
    tensor(3.)
    """
    check_square(A, "bures_wasserstein")
    check_square(B, "bures_wasserstein")
    if A.shape[-1] != B.shape[-1] or A.dtype != B.dtype:
        raise ValueError(
            "bures_wasserstein expects matrices of one size and dtype, got "
            f"{tuple(A.shape)} {A.dtype} and {tuple(B.shape)} {B.dtype}"
        )
    return _squared_distance(*_broadcast(sqrtm(A), sqrtm(B)))


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
        X: features in rows, ``(..., N, d)`` with N of at least 2, float32 or float64.
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
    if X.shape[-1] != Y.shape[-1] or X.dtype != Y.dtype:
        raise ValueError(
            "frechet_distance expects features of one dimension and dtype, got "
            f"{tuple(X.shape)} {X.dtype} and {tuple(Y.shape)} {Y.dtype}"
        )
    means = X.mean(-2, keepdim=True), Y.mean(-2, keepdim=True)
    centred = ((t - mean) / (t.shape[-2] - 1) ** 0.5 for t, mean in zip((X, Y), means, strict=True))
    between = (means[0] - means[1]).square().sum((-2, -1))
    distance = between + _squared_distance(*_broadcast(*centred))
    check_range(
        distance[..., None, None], "frechet_distance", X, Y, item="X", advice="scale the features"
    )
    return distance


def _broadcast(X: Tensor, Y: Tensor) -> tuple[Tensor, Tensor]:
    """Give both the same batch dimensions; their matrices may have different shapes."""
    # torch.broadcast_shapes would import half of the compiler.
    lead = torch.broadcast_tensors(X.new_empty(X.shape[:-2]), Y.new_empty(Y.shape[:-2]))[0].shape
    return X.expand(*lead, *X.shape[-2:]), Y.expand(*lead, *Y.shape[-2:])
