r"""All derivatives of the fused root, as one instance of :class:`rootpool.linalg.smooth.Smooth`.

The derivation is in :mod:`rootpool.nn.fused`. Nothing here divides by a gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rootpool.linalg import from_triangle, to_triangle, triangle_size
from rootpool.linalg.checks import can_read_values, check_range, is_concrete, needs_grad
from rootpool.linalg.matrix_derivatives import derivative, evaluate, second_derivative
from rootpool.linalg.precision import HALF
from rootpool.linalg.restricted import OnRange
from rootpool.linalg.scalar import FUNCTIONS
from rootpool.linalg.smooth import Factors, Smooth, differentiable

from .covariance import GRADIENT_ADVICE, GRADIENT_OF
from .fused import Plan, gradient, own_units, root_gradient
from .fused_operators import backward_op, encoded, run
from .spectral_roots import SpectralRoot

__all__ = ["FusedRoot", "fused_root"]


@dataclass(frozen=True)
class FusedRoot(Plan, Smooth):
    """``X -> Q``; the factors are W, K and s."""

    batchwise: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return "covariance_pool"

    def value(self, X: Tensor) -> tuple[Tensor, ...]:
        return run(X, self, True)

    def like_value(self, X: Tensor, factors: Factors) -> Tensor:
        d = X.shape[1]
        shape = (d, d) if self.output == "matrix" else (triangle_size(d),)
        return X[:, 0, 0].reshape(-1, *(1 for _ in shape)).expand(-1, *shape)

    def vjp(self, factors: Factors, g: Tensor) -> Tensor:
        W, K, s = factors
        if isinstance(self.method, SpectralRoot) and is_concrete(g):
            # Those who scale a loss in half precision look for infinities themselves.
            looks = can_read_values(g) and g.dtype not in HALF
            suspects: list[int] | None = [] if looks else None
            found = root_gradient(g, W, K, s, self.method, suspects)
            if suspects:
                check_range(found, GRADIENT_OF, g, item="features", advice=GRADIENT_ADVICE)
            return found
        if isinstance(self.method, str) or torch.compiler.is_compiling():
            traced: Tensor = backward_op(g, W, K, s, encoded(self.method))
            return traced
        # What wraps other tensors cannot go to worker threads.
        return gradient(self.method, _unpacked(g), W, K, s).to(g.dtype)

    def jvp(self, factors: Factors, dX: Tensor) -> Tensor:
        method = self.method
        assert isinstance(method, SpectralRoot)  # compiled functions have no forward mode
        W, K, s = factors
        T, s = dX.to(W.dtype) @ K.mT, own_units(s, W)
        F = W.mT @ T
        zeros = torch.zeros_like(F)
        columns = method.feature_gradient(s, zeros)[1]
        (inner,) = torch.func.vjp(lambda Z: method.feature_gradient(s, Z)[0], zeros)[1](F)
        M = ((T if columns is None else T * columns.unsqueeze(-2)) + W @ inner) @ W.mT
        return _shaped(M + M.mT, self.output).to(dX.dtype)

    def vjp_of_jvp(self, factors: Factors, g: Tensor, dX: Tensor) -> Tensor:
        self._check_twice()
        return _second(factors, g, dX, self.output, of_root=False)

    def jvp_of_jvp(self, factors: Factors, v: Tensor, w: Tensor) -> Tensor:
        self._check_twice()
        return _second(factors, v, w, self.output, of_root=True)

    def _check_twice(self) -> None:
        if isinstance(self.method, SpectralRoot) and not self.method.twice_differentiable:
            raise RuntimeError(
                f"second derivatives of covariance_pool with {self.method} do not exist: from the "
                "features, 'exact' alone has them; use the method 'exact', or call the method on "
                "covariance(X)"
            )


def _shaped(Q: Tensor, output: str) -> Tensor:
    return Q if output == "matrix" else to_triangle(Q)


def _unpacked(g: Tensor) -> Tensor:
    """A gradient of roots as matrices: upper triangular ones for triangles."""
    return g if g.dim() == 3 else from_triangle(g).triu()


# --------------------------------------------------------------------------------------------------
# The second derivative


def _second(factors: Factors, a: Tensor, H: Tensor, output: str, *, of_root: bool) -> Tensor:
    r"""The derivative along ``H`` of jvp(a), a change of the root, or else of vjp(a), of features.

    With :math:`C = X^T S X / N`, where S is the symmetric part of the gradient a of the root, and
    P the matrix under the root, :math:`\mathrm{vjp} = \frac2N (S X f(P) + X\, df[C])` for N <= d and
    :math:`\frac2N\, df[S] X` for N > d.
    """
    W, K, s = (factor.to(factors[2].dtype) for factor in factors)
    dtype, a, H = a.dtype, a.to(s.dtype), H.to(s.dtype)
    # Centred; where W and K are kept in float32, it is as if the features had been rounded once more.
    X = K.shape[-1] * (W * s.unsqueeze(-2)) @ K
    # The root of a multiple is a multiple of the root. In this unit squares do not overflow.
    unit = X.abs().flatten(1).amax(1)[:, None, None]
    unit = torch.where(unit == 0, 1, unit)
    X = X / unit
    curve = _Curve(X)
    if of_root:
        second = _shaped(curve.of_jvp(_centred(a), _centred(H)), output)
    else:
        G = _unpacked(a)
        second = _centred(curve.of_vjp((G + G.mT) / 2, _centred(H)))
    return (second / (unit if second.dim() == 3 else unit[..., 0])).to(dtype)


def _centred(X: Tensor) -> Tensor:
    return X - X.mean(-1, keepdim=True)


class _Curve:
    """Second derivatives of the root at centred features X, ``(B, d, N)``."""

    def __init__(self, X: Tensor) -> None:
        self.X, self.N = X, X.shape[-1]
        self.thin = X.shape[-2] >= self.N
        self.f = OnRange(FUNCTIONS["inv_sqrt" if self.thin else "sqrt"])
        self.F, self.lam, self.U = evaluate(self.product(X, X), self.f, "covariance_pool", None)

    def product(self, A: Tensor, B: Tensor) -> Tensor:
        return (A.mT @ B if self.thin else A @ B.mT) / self.N

    def moved(self, H: Tensor) -> Tensor:
        """The change of P along ``H``."""
        one = self.product(self.X, H)
        return one + one.mT

    def d(self, G: Tensor) -> Tensor:
        return derivative(self.lam, self.U, G, self.f)

    def d2(self, G: Tensor, W: Tensor) -> Tensor:
        return second_derivative(self.lam, self.U, G, W, self.f)

    def of_vjp(self, S: Tensor, H: Tensor) -> Tensor:
        X, N, dP = self.X, self.N, self.moved(H)
        if not self.thin:
            return (self.d2(S, dP) @ X + self.d(S) @ H) * (2 / N)
        SX, dC = S @ X, X.mT @ S @ H / N
        C = X.mT @ SX / N
        bent = self.d2(C, dP) + self.d(dC + dC.mT)
        return (S @ H @ self.F + SX @ self.d(dP) + H @ self.d(C) + X @ bent) * (2 / N)

    def of_jvp(self, A: Tensor, B: Tensor) -> Tensor:
        X, N, dA, dB = self.X, self.N, self.moved(A), self.moved(B)
        mixed = self.product(A, B)
        bent = self.d2(dA, dB) + self.d(mixed + mixed.mT)
        if not self.thin:
            return bent
        half = A @ self.F @ B.mT + (A @ self.d(dB) + B @ self.d(dA)) @ X.mT
        return (half + half.mT + X @ bent @ X.mT) / N


def fused_root(X: Tensor, f: FusedRoot) -> Tensor:
    """Roots of the covariances of features ``(B, C, N)``, with their derivatives to the features."""
    return differentiable(f, X) if needs_grad(X) else run(X, f, False)[0]
