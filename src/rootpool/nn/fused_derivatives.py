r"""The fused root for autograd, as one instance of :class:`rootpool.linalg.smooth.Smooth`, and for tracers.

The derivation is in :mod:`rootpool.nn.fused`. Nothing here divides by a gap. For ``torch.compile``,
``torch.jit.trace`` and ``torch.vmap`` the root is an operator. Operators take no objects: a method is passed
as text, the name under which it is registered and its fields.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import math
import numbers
from typing import Any

import torch
from torch import Tensor

from rootpool.linalg import from_triangle, to_triangle, triangle_size
from rootpool.linalg._private import NOT_IN_CUDA_GRAPHS
from rootpool.linalg.checks import can_read_values, check_range, is_concrete, needs_grad
from rootpool.linalg.decompose import without_derivative
from rootpool.linalg.matrix_derivatives import MatrixFunction
from rootpool.linalg.precision import HALF
from rootpool.linalg.restricted import OnRange
from rootpool.linalg.scalar import FUNCTIONS
from rootpool.linalg.smooth import Factors, Smooth, differentiable

from .covariance import GRADIENT_ADVICE, GRADIENT_OF
from .fused import Plan, own_units, root, root_gradient, unfilled
from .registry import METHODS, is_registered
from .spectral_roots import SpectralRoot


@dataclasses.dataclass(frozen=True)
class FusedRoot(Plan, Smooth):
    """``X -> Q``; the factors are W, K and s."""

    @property
    def name(self) -> str:
        return "covariance_pool"

    def value(self, X: Tensor) -> tuple[Tensor, ...]:
        return _run(X, self, True)

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
        wrapped: Tensor = _backward_op(g, W, K, s, encoded(self.method))
        return wrapped

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
        G = a if output == "matrix" else from_triangle(a).triu()
        second = _centred(curve.of_vjp((G + G.mT) / 2, _centred(H)))
    return (second / (unit if second.dim() == 3 else unit[..., 0])).to(dtype)


def _centred(X: Tensor) -> Tensor:
    return X - X.mean(-1, keepdim=True)


class _Curve:
    """Second derivatives of the root at centred features X, ``(B, d, N)``."""

    def __init__(self, X: Tensor) -> None:
        self.X, self.N = X, X.shape[-1]
        self.thin = X.shape[-2] >= self.N
        function = OnRange(FUNCTIONS["inv_sqrt" if self.thin else "sqrt"])
        f = MatrixFunction(function, "covariance_pool")
        self.F, *factors = f.value(self.product(X, X))
        self.d = functools.partial(f.jvp, factors)
        self.d2 = functools.partial(f.jvp_of_jvp, factors)

    def product(self, A: Tensor, B: Tensor) -> Tensor:
        return (A.mT @ B if self.thin else A @ B.mT) / self.N

    def moved(self, H: Tensor) -> Tensor:
        """The change of P along ``H``."""
        one = self.product(self.X, H)
        return one + one.mT

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
    return differentiable(f, X) if needs_grad(X) else _run(X, f, False)[0]


# --------------------------------------------------------------------------------------------------
# For tracers


def encoded(method: SpectralRoot | str) -> str:
    """The registered name of a method and its fields, as text."""
    if isinstance(method, str):
        return method
    if not is_registered(method):
        raise TypeError(
            f"torch.compile, torch.export and torch.vmap need the name of {method}, which METHODS does not "
            "have; decorate its class with rootpool.nn.register"
        )
    values = {field.name: getattr(method, field.name) for field in dataclasses.fields(method)}
    fields = ", ".join(f"{name!r}: {_literal(value, method)}" for name, value in values.items())
    return f"{method.name!r}, {{{fields}}}"


def _literal(value: object, method: SpectralRoot) -> str:
    if value is None or isinstance(value, (bool, str)):
        return repr(value)
    if isinstance(value, numbers.Integral):  # of NumPy as well
        return repr(int(value))
    # Not repr, which torch.compile cannot trace for numbers that change.
    if isinstance(value, float):
        return "1e999" if value == math.inf else f"{value}"  # infinity has no literal of its own
    raise TypeError(
        "torch.compile and torch.export need fields of numbers, booleans, text or None; "
        f"{method} has {value!r}"
    )


def _decoded(text: str) -> SpectralRoot:
    """The method that :func:`encoded` wrote."""
    name, values = ast.literal_eval(text)
    method = METHODS[name](**values)
    assert isinstance(method, SpectralRoot)
    return method


@torch.library.custom_op("rootpool::covariance_root", mutates_args=(), **NOT_IN_CUDA_GRAPHS)
def _forward_op(
    X: Tensor,
    method: str,
    dtype: torch.dtype,
    kept: torch.dtype,
    output: str,
    solver_device: str,
    save: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """:func:`root` for tracers."""
    return root(X, Plan(_decoded(method), dtype, kept, output, solver_device), save)


@torch.library.custom_op(
    "rootpool::covariance_root_backward", mutates_args=(), **NOT_IN_CUDA_GRAPHS
)
def _backward_op(g: Tensor, W: Tensor, K: Tensor, s: Tensor, method: str) -> Tensor:
    """:func:`root_gradient` for tracers."""
    return root_gradient(g, W, K, s, _decoded(method))


without_derivative(_forward_op)
_forward_op.register_fake(lambda X, *plan: unfilled(X, Plan(*plan[:-1]), plan[-1]))


@_backward_op.register_fake
def _(g: Tensor, W: Tensor, K: Tensor, s: Tensor, method: str) -> Tensor:
    return g.new_empty(W.shape[0], W.shape[1], K.shape[2])


def _add_vmap(operator: torch.library.CustomOpDef) -> None:
    """Let ``torch.vmap`` make one batch of all batches."""

    def rule(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> tuple[Any, Any]:
        size = info.batch_size
        flat = [
            a
            if not isinstance(a, Tensor)
            else (a.expand(size, *a.shape) if k is None else a.movedim(k, 0)).flatten(0, 1)
            for a, k in zip(args, in_dims, strict=True)
        ]
        found = operator(*flat)
        single = isinstance(found, Tensor)
        parts = [t.unflatten(0, (size, len(t) // size)) for t in ([found] if single else found)]
        return (parts[0], 0) if single else (tuple(parts), (0,) * len(parts))

    operator.register_vmap(rule)


_add_vmap(_forward_op)
_add_vmap(_backward_op)


def _run(X: Tensor, plan: Plan, save: bool) -> tuple[Tensor, ...]:
    """:func:`root`, in the way that the tensor asks for; text is for tracers alone."""
    if isinstance(plan.method, SpectralRoot) and is_concrete(X):
        return root(X, plan, save)
    options = (plan.dtype, plan.kept, plan.output, plan.solver_device)
    factors: tuple[Tensor, ...] = _forward_op(X, encoded(plan.method), *options, save)
    return factors
