r"""Derivatives of the root of a covariance with respect to the features, of both orders and in both modes.

:mod:`rootpool.nn.fused` computes the root Q and, for a gradient g of Q, the gradient of the features: a
linear map that we call *pull*. Its transpose, *push*, takes a change of the features to the change of Q.
With :math:`W, K, s` of that module, :math:`T = dX K^T` and the transpose :math:`\mathcal L^*` of what a
method puts between W and K (a matrix and a scale c of columns),

.. math:: dQ = M + M^T, \qquad M = T \mathrm{diag}(c) W^T + W \mathcal L^*(W^T T) W^T,

for the exact gradient :math:`dQ = T W^T + W T^T - W \left( \frac{(F + F^T)_{ij}}{s_i + s_j} \right) W^T`
with :math:`F = W^T T`. Nothing here divides by a gap.

The second derivative of the exact root follows from forms that are smooth where the rank of the centred
features X does not change, and their derivative along changes that keep it: with f on positive
eigenvalues alone,

.. math:: Q = \tfrac1N X (\tfrac1N X^T X)^{-1/2} X^T \quad (N \le d), \qquad
          Q = (\tfrac1N X X^T)^{1/2} \quad (N > d).

That is slower than the rest: it decomposes again, and uses the derivatives of matrix functions.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from rootpool.linalg import from_triangle, to_triangle, triangle_size, triangle_weights
from rootpool.linalg.checks import (
    check_range,
    checked_like_forward,
    is_plain,
    is_watched,
    may_check,
)
from rootpool.linalg.differentiation import (
    Differentiable,
    Held,
    add,
    apply,
    hold,
    remember,
    stand_in,
)
from rootpool.linalg.matrix_derivatives import derivative, evaluate, second_derivative
from rootpool.linalg.restricted import OnRange
from rootpool.linalg.scalar import FUNCTIONS

from .covariance import GRADIENT_ADVICE
from .fused import backward_op, encoded, forward_op, own_units, root, root_gradient
from .spectral_roots import SpectralRoot

__all__ = ["fused_root"]

Factors = tuple[Tensor, ...]  # W, K and the singular values


# --------------------------------------------------------------------------------------------------
# The two linear maps


def _pull(g: Tensor, factors: Factors, method: SpectralRoot | str) -> Tensor:
    """The gradient of the features for the gradient of their root."""
    W, K, s = factors
    if isinstance(method, SpectralRoot) and is_plain(g):
        suspects: list[int] | None = [] if may_check(g) else None
        gradient = root_gradient(g, W, K, s, method, suspects=suspects)[0]
        if suspects:
            what = "the gradient of covariance_pool"
            check_range(gradient, what, g, item="features", advice=GRADIENT_ADVICE)
        return gradient
    if isinstance(method, str) or torch.compiler.is_compiling():
        traced: Tensor = backward_op(g, W, K, s, encoded(method))
        return traced
    # What wraps other tensors cannot go to worker threads.
    twice = g + g.mT if g.dim() == 3 else from_triangle(g)
    if g.dim() == 2:
        twice = twice + torch.diag_embed(twice.diagonal(dim1=1, dim2=2))
    T, s = twice.to(W.dtype) @ W, own_units(s, W)
    inner, columns = method.inner(s, W.mT @ T)
    T = T if columns is None else T * columns.unsqueeze(-2)
    return ((T + W @ inner) @ K).to(g.dtype)


def _push(H: Tensor, factors: Factors, method: SpectralRoot, output: str) -> Tensor:
    """The change of the root for a change of the features: the transpose of :func:`_pull`."""
    W, K, s = factors
    T, s = H.to(W.dtype) @ K.mT, own_units(s, W)
    F = W.mT @ T
    columns = method.inner(s, torch.zeros_like(F))[1]
    (inner,) = torch.func.vjp(lambda Z: method.inner(s, Z)[0], torch.zeros_like(F))[1](F)
    M = ((T if columns is None else T * columns.unsqueeze(-2)) + W @ inner) @ W.mT
    return _shaped(M + M.mT, output).to(H.dtype)


def _map(v: Tensor, factors: Factors, method: Any, output: str, to_root: bool) -> Tensor:
    return _push(v, factors, method, output) if to_root else _pull(v, factors, method)


def _shaped(Q: Tensor, output: str) -> Tensor:
    return Q if output == "matrix" else to_triangle(Q)


# --------------------------------------------------------------------------------------------------
# The second derivative


def _second(factors: Factors, a: Tensor, H: Tensor, output: str, *, of_root: bool) -> Tensor:
    r"""The derivative along ``H`` of push(a), a change of the root, or else of pull(a), of features.

    With :math:`C = X^T S X / N`, where S is the symmetric part of the gradient a of the root, and
    P the matrix under the root, :math:`\mathrm{pull} = \frac2N (S X f(P) + X\, df[C])` for N <= d and
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
        second = _shaped(curve.of_push(_centred(a), _centred(H)), output)
    else:
        S = from_triangle(_half_off_diagonal(a)) if a.dim() == 2 else (a + a.mT) / 2
        second = _centred(curve.of_pull(S, _centred(H)))
    return (second / (unit if second.dim() == 3 else unit[..., 0])).to(dtype)


def _centred(X: Tensor) -> Tensor:
    return X - X.mean(-1, keepdim=True)


def _half_off_diagonal(triangle: Tensor) -> Tensor:
    """The triangle of the symmetric part of the upper triangular matrix that has this triangle."""
    d = from_triangle(triangle[:1]).shape[-1]
    weights = triangle_weights(d, dtype=triangle.dtype, device=triangle.device)
    return triangle / weights.square()


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

    def of_pull(self, S: Tensor, H: Tensor) -> Tensor:
        X, N, dP = self.X, self.N, self.moved(H)
        if not self.thin:
            return (self.d2(S, dP) @ X + self.d(S) @ H) * (2 / N)
        SX, dC = S @ X, X.mT @ S @ H / N
        C = X.mT @ SX / N
        bent = self.d2(C, dP) + self.d(dC + dC.mT)
        return (S @ H @ self.F + SX @ self.d(dP) + H @ self.d(C) + X @ bent) * (2 / N)

    def of_push(self, A: Tensor, B: Tensor) -> Tensor:
        X, N, dA, dB = self.X, self.N, self.moved(A), self.moved(B)
        mixed = self.product(A, B)
        bent = self.d2(dA, dB) + self.d(mixed + mixed.mT)
        if not self.thin:
            return bent
        half = A @ self.F @ B.mT + (A @ self.d(dB) + B @ self.d(dA)) @ X.mT
        return (half + half.mT + X @ bent @ X.mT) / N


# --------------------------------------------------------------------------------------------------
# Automatic differentiation. ``method`` is text while torch.compile traces, which takes no objects.


class _Batchwise(Differentiable):
    """Under ``torch.vmap`` the new dimension becomes part of the batch, which comes first anyway."""

    generate_vmap_rule = False

    def __init_subclass__(cls) -> None:
        cls.vmap = staticmethod(functools.partial(_vmap, cls))  # type: ignore[method-assign]


def _vmap(kind: Any, info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[Any, Any]:
    size = info.batch_size
    flat = [
        a
        if not isinstance(a, Tensor)
        else (a.expand(size, *a.shape) if k is None else a.movedim(k, 0)).flatten(0, 1)
        for a, k in zip(args, in_dims, strict=True)
    ]
    result = kind.apply(*flat)
    single = isinstance(result, Tensor)
    parts = tuple(r.unflatten(0, (size, len(r) // size)) for r in ([result] if single else result))
    return (parts[0], 0) if single else (parts, (0,) * len(parts))


class _Root(_Batchwise):
    """``X -> Q``, with the factors of X and its stand-in."""

    saves_outputs = True

    @staticmethod
    def forward(
        X: Tensor,
        method: SpectralRoot | str,
        dtype: torch.dtype,
        kept: torch.dtype,
        output: str,
    ) -> tuple[Tensor, ...]:
        if isinstance(method, SpectralRoot) and is_plain(X):
            results = root(X, method, dtype, kept, output, True)
        else:
            results = forward_op(X, encoded(method), dtype, kept, output, True)
        return *results, stand_in(X)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        _, ctx.method, *_, ctx.output = inputs
        _, *factors, link = output
        ctx.mark_non_differentiable(*factors)
        remember(ctx, link, *factors)

    @staticmethod
    @checked_like_forward
    def backward(ctx: Any, g: Tensor | None, *rest: Tensor | None) -> tuple[Tensor | None, ...]:
        g_link = rest[-1]
        if g is not None:
            g_link = add(g_link, _linear(ctx, ctx.saved_tensors, g, to_root=False))
        return g_link, None, None, None, None

    @staticmethod
    def tangent(ctx: Any, saved: Any, dX: Tensor, *_: None) -> tuple[Tensor | None, ...]:
        return _linear(ctx, saved, dX, to_root=True), None, None, None, dX


def _linear(ctx: Any, saved: tuple[Tensor, ...], v: Tensor, *, to_root: bool) -> Tensor:
    """push(v), or else pull(v), differentiable in v and in the stand-in of the features.

    By two nodes: methods that have no second derivative may still be asked for that in v alone.
    """
    options = (ctx.method, ctx.output, to_root)
    if not is_watched(saved[0], v):
        return _map(v, saved[1:], *options)
    along: Tensor = apply(_Along, *saved, v, *options)
    bend: Tensor = apply(_Bend, *saved, hold(v, saved[0]), *options)
    return add(along, bend)  # type: ignore[return-value]


class _Along(_Batchwise):
    """``v -> push(v)`` or ``pull(v)``; each is the transpose of the other."""

    @staticmethod
    def forward(
        X: Tensor,
        W: Tensor,
        K: Tensor,
        s: Tensor,
        v: Tensor,
        method: Any,
        output: str,
        to_root: bool,
    ) -> Tensor:
        return _map(v, (W, K, s), method, output, to_root)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        *tensors, _, ctx.method, ctx.output, ctx.to_root = inputs
        remember(ctx, *tensors)

    @staticmethod
    @checked_like_forward
    def backward(ctx: Any, w: Tensor | None) -> tuple[Tensor | None, ...]:
        g = None if w is None else _linear(ctx, ctx.saved_tensors, w, to_root=not ctx.to_root)
        return None, None, None, None, g, None, None, None

    @staticmethod
    def tangent(ctx: Any, saved: Any, *tangents: Tensor | None) -> Tensor:
        dv = tangents[4]
        if dv is None:
            return _zeros(saved, ctx.output, ctx.to_root)
        return _linear(ctx, saved, dv, to_root=ctx.to_root)


class _Bend(_Batchwise):
    """Zero, with the derivative of push(v) or pull(v) with respect to the features."""

    @staticmethod
    def forward(
        X: Tensor,
        W: Tensor,
        K: Tensor,
        s: Tensor,
        v: Tensor | Held,
        method: Any,
        output: str,
        to_root: bool,
    ) -> Tensor:
        return _zeros((X, W), output, to_root, *(() if isinstance(v, Held) else (v,)))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        *tensors, ctx.v, ctx.method, ctx.output, ctx.to_root = inputs
        if not isinstance(ctx.v, Held):
            tensors, ctx.v = [*tensors, ctx.v], None
        remember(ctx, *tensors)

    @staticmethod
    @checked_like_forward
    def backward(ctx: Any, w: Tensor | None) -> tuple[Tensor | None, ...]:
        if w is None:
            return (None,) * 8
        saved, v = ctx.saved_tensors[:4], ctx.v.tensor if ctx.v else ctx.saved_tensors[4]
        g, H = (w, v) if ctx.to_root else (v, w)  # whose inner product with push(H) that is
        return apply(_Second, *saved, g, H, ctx.method, ctx.output, False), *(None,) * 7

    @staticmethod
    def tangent(ctx: Any, saved: Any, dX: Tensor | None, *_: object) -> Tensor:
        if dX is None:
            return _zeros(saved, ctx.output, ctx.to_root)
        second: Tensor = apply(_Second, *saved, dX, ctx.method, ctx.output, ctx.to_root)
        return second


def _zeros(saved: tuple[Tensor, ...], output: str, to_root: bool, *others: Tensor) -> Tensor:
    """A stand-in of the shape of the root, or of the features."""
    X, W = saved[:2]
    if not to_root:
        return stand_in(X, *others)
    d = X.shape[1]
    shape = (d, d) if output == "matrix" else (triangle_size(d),)
    like = X[:, 0, 0].reshape(-1, *(1 for _ in shape)).expand(-1, *shape)
    return stand_in(like, *others)


class _Second(_Batchwise):
    """The derivative of push(a) or pull(a) along ``H``; a further derivative is refused."""

    @staticmethod
    def forward(
        X: Tensor,
        W: Tensor,
        K: Tensor,
        s: Tensor,
        a: Tensor,
        H: Tensor,
        method: Any,
        output: str,
        of_root: bool,
    ) -> Tensor:
        if not method.twice:
            raise RuntimeError(
                f"second derivatives of covariance_pool with {method} do not exist: from the features, "
                "'exact' alone has them; use the method 'exact', or call the method on covariance(X)"
            )
        return _second((W, K, s), a, H, output, of_root=of_root)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.checked = True

    @staticmethod
    def backward(ctx: Any, *_: object) -> tuple[None, ...]:
        raise RuntimeError("third derivatives of covariance_pool are not implemented")

    tangent = backward


def fused_root(
    X: Tensor, method: SpectralRoot, dtype: torch.dtype, kept: torch.dtype, output: str
) -> Tensor:
    """Roots of the covariances of features ``(B, C, N)``, with their derivatives to the features.

    Args:
        X: features with at least one channel and one position.
        method: any spectral root; under tracers it must be registered.
        dtype: what to decompose in.
        kept: of the factors, and of the products with them.
        output: ``"triangle"`` or ``"matrix"``.
    """
    if is_plain(X) and not is_watched(X):
        return root(X, method, dtype, kept, output, False)[0]
    described = encoded(method) if torch.compiler.is_compiling() else method
    if not is_watched(X):  # what torch.jit.trace writes down: the operator
        traced: Tensor = forward_op(X, encoded(method), dtype, kept, output, False)[0]
        return traced
    result: Tensor = apply(_Root, X, described, dtype, kept, output)[0]
    return result
