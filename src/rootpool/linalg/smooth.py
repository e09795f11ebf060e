r"""Functions by their derivatives: formulas in, automatic differentiation of both orders and modes out.

A function f of one tensor A leaves three *factors* of A behind, such as eigenvectors. From them it knows
two linear maps, *push* from a change of A to that of f, and its transpose *pull*, the backward; and two
bilinear ones,

.. math:: \mathrm{bend}(g, dA) = \nabla_A \langle g,\, \mathrm{push}(dA) \rangle, \qquad
          \mathrm{second}(v, w) = d^2 f(A)[v, w].

As second derivatives are symmetric, bend is also the change of pull(g) along dA. A further derivative is
refused.

Each linear map is two nodes: one in its argument alone, and a zero whose derivative is bend or second. So
autograd does not ask for a second derivative where only a first one is wanted, and where f may have no
other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .checks import checked_like_forward, is_watched
from .differentiation import Differentiable, Held, add, apply, hold, remember, stand_in
from .precision import without_autocast

__all__ = ["Factors", "Smooth", "differentiable"]

# Three, because the compiler of torch 2.8 cannot trace Functions with a variable number of arguments.
Factors = Sequence[Tensor]
Saved = Sequence[Tensor]  # a stand-in for A, and the factors


class Smooth(ABC):
    """A function of one tensor with its derivatives; a frozen value, so that compilers know it again."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What users call it, in errors."""

    @abstractmethod
    def value(self, A: Tensor) -> tuple[Tensor, ...]:
        """``f(A)`` and three factors, all of them new tensors."""

    @abstractmethod
    def like_value(self, factors: Factors) -> Tensor:
        """Any tensor of the shape and dtype of ``f(A)``."""

    @abstractmethod
    def push(self, factors: Factors, dA: Tensor) -> Tensor:
        """The change of f along ``dA``."""

    @abstractmethod
    def pull(self, factors: Factors, g: Tensor) -> Tensor:
        """The gradient of ``<g, f(A)>``."""

    @abstractmethod
    def bend(self, factors: Factors, g: Tensor, dA: Tensor) -> Tensor:
        """The gradient of ``<g, push(dA)>``."""

    @abstractmethod
    def second(self, factors: Factors, v: Tensor, w: Tensor) -> Tensor:
        """The change of ``push(v)`` along ``w``."""

    def inspect(self, factors: Factors, g: Tensor) -> None:  # noqa: B027
        """Say what is to be said about the gradient ``g`` of a loss; not in its second derivative."""

    def _map(self, factors: Factors, v: Tensor, backward: bool) -> Tensor:
        return self.pull(factors, v) if backward else self.push(factors, v)


def differentiable(f: Smooth, A: Tensor) -> Tensor:
    """``f(A)``, for autograd."""
    if not is_watched(A):
        return f.value(A)[0]
    value: Tensor = apply(_Value, A, f)[0]
    return value


class _Value(Differentiable):
    """``A -> f(A)``, with the factors and a stand-in for A."""

    saves_outputs = True

    @staticmethod
    def forward(A: Tensor, f: Smooth) -> tuple[Tensor, ...]:
        return *f.value(A), stand_in(A)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.f, ctx.again = inputs[1], False
        _, *factors, link = output
        ctx.mark_non_differentiable(*factors)
        remember(ctx, link, *factors)

    @staticmethod
    @checked_like_forward
    @without_autocast
    def backward(ctx: Any, g: Tensor | None, *rest: Tensor | None) -> tuple[Tensor | None, ...]:
        g_link = rest[-1]
        if g is not None:
            if not torch.compiler.is_compiling() and not ctx.again:
                ctx.again = torch.is_grad_enabled()  # this gradient may be differentiated
                ctx.f.inspect(ctx.saved_tensors[1:], g)
            g_link = add(g_link, _linear(ctx.f, ctx.saved_tensors, g, backward=True))
        return g_link, None

    @staticmethod
    def tangent(ctx: Any, saved: Saved, dA: Tensor, _: None) -> tuple[Tensor | None, ...]:
        return _linear(ctx.f, saved, dA, backward=False), None, None, None, dA


def _linear(f: Smooth, saved: Saved, v: Tensor, *, backward: bool) -> Tensor:
    """push(v) or pull(v), differentiable in v and in the stand-in, the first of the saved tensors."""
    if not is_watched(saved[0], v):
        return f._map(saved[1:], v, backward)
    along: Tensor = apply(_Along, *saved, v, f, backward)
    bend: Tensor = apply(_Bend, *saved, hold(v, saved[0]), f, backward)
    return add(along, bend)  # type: ignore[return-value]


def _zeros(f: Smooth, saved: Saved, backward: bool, *others: Tensor) -> Tensor:
    return stand_in(saved[0] if backward else f.like_value(saved[1:]), *others)


class _Along(Differentiable):
    """``v -> push(v)`` or ``pull(v)``; each is the transpose of the other."""

    @staticmethod
    def forward(
        link: Tensor, a: Tensor, b: Tensor, c: Tensor, v: Tensor, f: Smooth, backward: bool
    ) -> Tensor:
        return f._map((a, b, c), v, backward)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        *saved, _, ctx.f, ctx.pulls = inputs
        remember(ctx, *saved)

    @staticmethod
    @checked_like_forward
    @without_autocast
    def backward(ctx: Any, w: Tensor | None) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        g = None if w is None else _linear(ctx.f, saved, w, backward=not ctx.pulls)
        return None, None, None, None, g, None, None

    @staticmethod
    def tangent(ctx: Any, saved: Saved, *tangents: Tensor | None) -> Tensor:
        dv = tangents[4]
        if dv is None:
            return _zeros(ctx.f, saved, ctx.pulls)
        return _linear(ctx.f, saved, dv, backward=ctx.pulls)


class _Bend(Differentiable):
    """Zero, with the derivative of push(v) or pull(v) with respect to A."""

    @staticmethod
    def forward(
        link: Tensor, a: Tensor, b: Tensor, c: Tensor, v: Tensor | Held, f: Smooth, backward: bool
    ) -> Tensor:
        return _zeros(f, (link, a, b, c), backward, *(() if isinstance(v, Held) else (v,)))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        *saved, ctx.v, ctx.f, ctx.pulls = inputs
        if not isinstance(ctx.v, Held):
            saved, ctx.v = [*saved, ctx.v], None
        remember(ctx, *saved)

    @staticmethod
    @checked_like_forward
    @without_autocast
    def backward(ctx: Any, w: Tensor | None) -> tuple[Tensor | None, ...]:
        if w is None:
            return (None,) * 7
        saved, v = _opened(ctx, ctx.saved_tensors)
        g, dA = (v, w) if ctx.pulls else (w, v)
        return apply(_Second, *saved, g, dA, ctx.f, True), *(None,) * 6

    @staticmethod
    def tangent(ctx: Any, saved: Saved, dA: Tensor | None, *_: object) -> Tensor:
        saved, v = _opened(ctx, saved)
        if dA is None:
            return _zeros(ctx.f, saved, ctx.pulls)
        second: Tensor = apply(_Second, *saved, v, dA, ctx.f, ctx.pulls)
        return second


def _opened(ctx: Any, saved: Saved) -> tuple[Saved, Tensor]:
    """The stand-in with the factors, and what the map was applied to."""
    return (saved[:-1], saved[-1]) if ctx.v is None else (saved, ctx.v.tensor)


class _Second(Differentiable):
    """``bend(v, w)`` or ``second(v, w)``; a further derivative is refused."""

    @staticmethod
    def forward(
        link: Tensor,
        a: Tensor,
        b: Tensor,
        c: Tensor,
        v: Tensor,
        w: Tensor,
        f: Smooth,
        bend: bool,
    ) -> Tensor:
        return f.bend((a, b, c), v, w) if bend else f.second((a, b, c), v, w)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.f, ctx.checked = inputs[6], True

    @staticmethod
    def backward(ctx: Any, *_: object) -> tuple[None, ...]:
        raise RuntimeError(f"third derivatives of {ctx.f.name} are not implemented")

    tangent = backward
