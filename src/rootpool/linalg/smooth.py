r"""The machine for derivatives: formulas in, automatic differentiation of both orders and modes out.

A function f of one tensor A leaves three *factors* of A behind, such as eigenvectors. From them it knows
two linear maps, *jvp* from a change of A to the change of f, and its transpose *vjp*, the backward; and
two bilinear ones,

.. math:: \mathrm{vjp\_of\_jvp}(g, dA) = \nabla_A \langle g,\, \mathrm{jvp}(dA) \rangle, \qquad
          \mathrm{jvp\_of\_jvp}(v, w) = d^2 f(A)[v, w].

As second derivatives are symmetric, the first is also the change of vjp(g) along dA. A further derivative
is refused.

Each linear map is two nodes: one in its argument alone, and a zero whose derivative is one of the bilinear
maps. So autograd does not ask for a second derivative where only a first one is wanted, and where f may
have no other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from ._private import records_operators
from .checks import checked_like_forward, needs_grad
from .differentiation import (
    Differentiable,
    Hidden,
    add,
    apply,
    hide_from_autograd,
    remember,
    zero_with_gradient,
)
from .precision import without_autocast

# Three, because the compiler of torch 2.8 cannot trace Functions with a variable number of arguments.
Factors = Sequence[Tensor]
Saved = Sequence[Tensor]  # what carries the gradient of A, and the factors


class Smooth(ABC):
    """A function of one tensor with its derivatives; a frozen value, so that compilers know it again.

    ``link`` is the place of a factor that may carry the derivative of A, because it has shape and dtype of A;
    without one, the machine makes a tensor for that, which takes as long as it takes to add two matrices.

    ``inspect(factors, g)`` says what is to be said about the gradient of a loss, once, not of its derivative.
    """

    link: ClassVar[int | None] = None
    inspect: Callable[[Factors, Tensor], None] | None = None

    @property
    @abstractmethod
    def name(self) -> str:
        """What users call it, in errors."""

    @abstractmethod
    def value(self, A: Tensor) -> tuple[Tensor, ...]:
        """``f(A)`` and up to three factors, all of them new tensors."""

    @abstractmethod
    def like_value(self, A: Tensor, factors: Factors) -> Tensor:
        """Any tensor of the shape and dtype of ``f(A)``; of ``A`` only shape and dtype are known."""

    @abstractmethod
    def jvp(self, factors: Factors, dA: Tensor, /) -> Tensor:
        """The change of f along ``dA``."""

    @abstractmethod
    def vjp(self, factors: Factors, g: Tensor, /) -> Tensor:
        """The gradient of ``<g, f(A)>``."""

    @abstractmethod
    def vjp_of_jvp(self, factors: Factors, g: Tensor, dA: Tensor, /) -> Tensor:
        """The gradient of ``<g, jvp(dA)>``."""

    @abstractmethod
    def jvp_of_jvp(self, factors: Factors, v: Tensor, w: Tensor, /) -> Tensor:
        """The change of ``jvp(v)`` along ``w``."""


def differentiable(f: Smooth, A: Tensor) -> Tensor:
    """``f(A)``, for autograd."""
    if not needs_grad(A):
        return f.value(A)[0]
    if not torch.compiler.is_compiling() and records_operators():
        _check_sizes(f)
    value: Tensor = apply(_Value, A, f)[0]
    return value


def differentiable_tall(f: Smooth, A: Tensor) -> Tensor:
    """``f(A)`` for an f of as many rows as columns or more that commutes with the transpose."""
    if A.shape[-2] < A.shape[-1]:
        return differentiable(f, A.mH).mH.resolve_conj()
    return differentiable(f, A)


def _check_sizes(f: Smooth) -> None:
    """Raise for sizes that ``torch.jit.trace`` has made tensors of, which no Function can hold."""
    if any(isinstance(size, Tensor) for size in vars(f).values()):
        raise RuntimeError(
            f"torch.jit.trace cannot record derivatives of {f.name}, which depend on sizes; use torch.export "
            "or torch.compile, or trace with inputs that need no gradient"
        )


def _linked(f: Smooth, outputs: Saved) -> Saved:
    """What carries the gradient of A, and three factors; a factor that is not there is another one."""
    link, factors = (outputs[-1], outputs[:-1]) if f.link is None else (outputs[f.link], outputs)
    return link, *factors, *[factors[0]] * (3 - len(factors))


class _Value(Differentiable):
    """``A -> f(A)``, with the factors and, if none of them carries the gradient of A, a zero that does."""

    saves_outputs = True

    @staticmethod
    def forward(A: Tensor, f: Smooth) -> tuple[Tensor, ...]:
        return f.value(A) if f.link is not None else (*f.value(A), zero_with_gradient(A))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.f, ctx.again = inputs[1], False
        remember(ctx, *output[1:])

    @staticmethod
    @checked_like_forward
    @without_autocast
    def backward(ctx: Any, g: Tensor | None, *rest: Tensor | None) -> tuple[Tensor | None, ...]:
        g_link = rest[-1 if ctx.f.link is None else ctx.f.link]
        if g is not None:
            saved = _linked(ctx.f, ctx.saved_tensors)
            if not torch.compiler.is_compiling() and ctx.f.inspect and not ctx.again:
                ctx.again = torch.is_grad_enabled()  # this gradient may be differentiated
                ctx.f.inspect(saved[1:], g)
            g_link = add(g_link, _linear(ctx.f, saved, g, backward=True))
        return g_link, None

    @staticmethod
    def tangent(ctx: Any, saved: Saved, dA: Tensor, _: None) -> tuple[Tensor | None, ...]:
        # Nobody differentiates the factors, but torch wants a tangent of them when it maps this rule.
        moving = len(saved) - 1 if ctx.f.link is None else ctx.f.link
        changes = (dA if k == moving else torch.zeros_like(t) for k, t in enumerate(saved))
        return _linear(ctx.f, _linked(ctx.f, saved), dA, backward=False), *changes


def _linear(f: Smooth, saved: Saved, v: Tensor, *, backward: bool) -> Tensor:
    """jvp(v) or vjp(v), differentiable in v and in A, by the first of the saved tensors."""
    if not needs_grad(saved[0], v):
        return (f.vjp if backward else f.jvp)(saved[1:], v)
    along: Tensor = apply(_Along, *saved, v, f, backward)
    hidden = hide_from_autograd(v, saved[0])
    bend: Tensor = apply(_Bend, *saved, hidden, f, backward)
    return add(along, bend)  # type: ignore[return-value]


def _zeros(f: Smooth, saved: Saved, backward: bool, *others: Tensor) -> Tensor:
    return zero_with_gradient(saved[0] if backward else f.like_value(saved[0], saved[1:]), *others)


class _Along(Differentiable):
    """``v -> jvp(v)`` or ``vjp(v)``; each is the transpose of the other."""

    @staticmethod
    def forward(
        link: Tensor, a: Tensor, b: Tensor, c: Tensor, v: Tensor, f: Smooth, backward: bool
    ) -> Tensor:
        return (f.vjp if backward else f.jvp)((a, b, c), v)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        *saved, _, ctx.f, ctx.is_vjp = inputs
        remember(ctx, *saved)

    @staticmethod
    @checked_like_forward
    @without_autocast
    def backward(ctx: Any, w: Tensor | None) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        g = None if w is None else _linear(ctx.f, saved, w, backward=not ctx.is_vjp)
        return None, None, None, None, g, None, None

    @staticmethod
    def tangent(ctx: Any, saved: Saved, *tangents: Tensor | None) -> Tensor:
        dv = tangents[4]
        if dv is None:
            return _zeros(ctx.f, saved, ctx.is_vjp)
        return _linear(ctx.f, saved, dv, backward=ctx.is_vjp)


class _Bend(Differentiable):
    """Zero, with the derivative of jvp(v) or vjp(v) with respect to A."""

    @staticmethod
    def forward(
        link: Tensor, a: Tensor, b: Tensor, c: Tensor, v: Tensor | Hidden, f: Smooth, backward: bool
    ) -> Tensor:
        return _zeros(f, (link, a, b, c), backward, *(() if isinstance(v, Hidden) else (v,)))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        *saved, ctx.v, ctx.f, ctx.is_vjp = inputs
        if not isinstance(ctx.v, Hidden):
            saved, ctx.v = [*saved, ctx.v], None
        remember(ctx, *saved)

    @staticmethod
    @checked_like_forward
    @without_autocast
    def backward(ctx: Any, w: Tensor | None) -> tuple[Tensor | None, ...]:
        if w is None:
            return (None,) * 7
        saved, v = _opened(ctx, ctx.saved_tensors)
        g, dA = (v, w) if ctx.is_vjp else (w, v)
        return apply(_Second, *saved, g, dA, ctx.f, True), *(None,) * 6

    @staticmethod
    def tangent(ctx: Any, saved: Saved, dA: Tensor | None, *_: object) -> Tensor:
        saved, v = _opened(ctx, saved)
        if dA is None:
            return _zeros(ctx.f, saved, ctx.is_vjp)
        second: Tensor = apply(_Second, *saved, v, dA, ctx.f, ctx.is_vjp)
        return second


def _opened(ctx: Any, saved: Saved) -> tuple[Saved, Tensor]:
    """The saved tensors of the value, and what the map was applied to."""
    return (saved[:-1], saved[-1]) if ctx.v is None else (saved, ctx.v.tensor)


class _Second(Differentiable):
    """``vjp_of_jvp(v, w)`` or ``jvp_of_jvp(v, w)``; a further derivative is refused."""

    @staticmethod
    def forward(
        link: Tensor,
        a: Tensor,
        b: Tensor,
        c: Tensor,
        v: Tensor,
        w: Tensor,
        f: Smooth,
        backward: bool,
    ) -> Tensor:
        return (f.vjp_of_jvp if backward else f.jvp_of_jvp)((a, b, c), v, w)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.f, ctx.checked = inputs[6], True

    @staticmethod
    def backward(ctx: Any, *_: object) -> tuple[None, ...]:
        raise RuntimeError(
            f"third derivatives of {ctx.f.name} are not implemented; if you wanted a second one, "
            "torch.autograd.functional.hvp takes a third on its way: use vhp, or torch.func.hessian"
        )

    tangent = backward
