"""The paper's layers, written as its text describes them. Ours are compared with these.

Forward: the covariance in float64, ``torch.linalg.svd``, and eigenvalues raised to eps. Backward: a
kernel and three batched products. We depart from the text only where that makes them faster:
polynomials in place. At a tie the kernel is 0 instead of infinity, so that no step is timed on NaN.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Kernel = Callable[[Tensor, Tensor], Tensor]  # larger and smaller eigenvalue of a pair


def covariance(X: Tensor) -> Tensor:
    A = X - X.mean(-1, keepdim=True)
    return A @ A.mT / X.shape[-1]


def triangle(Q: Tensor) -> Tensor:
    row, column = torch.triu_indices(Q.shape[-1], Q.shape[-1])
    return Q[:, row, column]


def ordinary(a: Tensor, b: Tensor) -> Tensor:
    K = 1 / (a - b)
    K[K.isinf()] = 0
    return K


def truncated(a: Tensor, b: Tensor) -> Tensor:
    return (1 / (a - b)).clamp(-1e10, 1e10)


def polynomial(x: Tensor, terms: int) -> Tensor:
    value = torch.ones_like(x)
    for _ in range(terms - 1):
        value.mul_(x).add_(1)
    return value


def taylor(a: Tensor, b: Tensor) -> Tensor:
    return polynomial(b / a, 101) / a


def power_iteration(a: Tensor, b: Tensor) -> Tensor:
    return polynomial(b / a, 20) / a


def pade(a: Tensor, b: Tensor) -> Tensor:
    # Numerator and denominator of degree 50. The values of the coefficients do not change the time.
    return polynomial(b / a, 51) / (polynomial(b / a, 51) + 1) / a


class SVDRoot(torch.autograd.Function):
    """Equations (2) to (5) of the paper."""

    @staticmethod
    def forward(ctx, P: Tensor, kernel: Kernel, keep: int | None) -> Tensor:
        U, lam, _ = torch.linalg.svd(P)
        lam = lam.clamp_min(torch.finfo(P.dtype).eps)
        root = lam.sqrt()
        if keep is not None:
            root[:, keep:] = 0
        ctx.save_for_backward(U, lam, root)
        ctx.kernel = kernel
        return U @ torch.diag_embed(root) @ U.mT

    @staticmethod
    def backward(ctx, G: Tensor) -> tuple[Tensor, None, None]:
        U, lam, root = ctx.saved_tensors
        K = ctx.kernel(lam.unsqueeze(-1), lam.unsqueeze(-2)).triu(1)
        K = K - K.mT
        g_U = (G + G.mT) @ (U * root.unsqueeze(-2))
        g_lam = 0.5 / lam.sqrt() * (U * (G @ U)).sum(1)
        inner = K.mT * (U.mT @ g_U) + torch.diag_embed(g_lam)
        g_P = U @ inner @ U.mT
        return (g_P + g_P.mT) / 2, None, None


def newton_schulz(P: Tensor, iterations: int = 5) -> Tensor:
    identity = 3 * torch.eye(P.shape[-1], dtype=P.dtype)
    trace = P.diagonal(dim1=1, dim2=2).sum(1)[:, None, None]
    A = P / trace
    ZY = 0.5 * (identity - A)
    Y, Z = A @ ZY, ZY
    for _ in range(iterations - 2):
        ZY = 0.5 * (identity - Z @ Y)
        Y, Z = Y @ ZY, ZY @ Z
    return 0.5 * Y @ (identity - Z @ Y) * trace.sqrt()


def svd_newton(P: Tensor) -> Tensor:
    with torch.no_grad():
        exact = SVDRoot.apply(P, ordinary, None)
    approximation = newton_schulz(P, 10)
    return approximation + (exact - approximation).detach()


def layer(root: Callable[[Tensor], Tensor], dtype: torch.dtype = torch.float64) -> Callable:
    """Features ``(B, d, N)`` to triangles, computed in ``dtype``."""
    return lambda X: triangle(root(covariance(X.to(dtype)))).to(X.dtype)


RECIPES = {
    "mpn-cov": layer(lambda P: SVDRoot.apply(P, ordinary, None)),
    "svd-topn": layer(lambda P: SVDRoot.apply(P, ordinary, 200)),
    "svd-trunc": layer(lambda P: SVDRoot.apply(P, truncated, None)),
    "svd-pi": layer(lambda P: SVDRoot.apply(P, power_iteration, None)),
    "svd-newton": layer(svd_newton),
    "svd-taylor": layer(lambda P: SVDRoot.apply(P, taylor, None)),
    "svd-pade": layer(lambda P: SVDRoot.apply(P, pade, None)),
}
