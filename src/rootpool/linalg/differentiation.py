"""What all our ``autograd.Function`` classes share: forward mode, saved tensors, and stand-ins.

A class writes its forward-mode derivative as ``tangent(ctx, saved, ...)``. In eager mode :func:`apply`
uses a subclass with a ``jvp`` that calls it; ``torch.compile`` takes no class with a ``jvp``, whether it is
used or not, so there it uses the class itself, and refuses forward mode, which would see no tangent at all.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from typing import Any

import torch
from torch import Tensor

from ._private import (
    is_transformed,
    propagating_tangents,
    within_dual_level,
    within_transform,
)
from .checks import checks_enabled, skip_checks

Kind = type[torch.autograd.Function]


@functools.cache
def _with_jvp(kind: Any) -> Any:
    def jvp(ctx: Any, *tangents: Any) -> Any:
        # Inside a jvp torch lets operators pass no tangents on, not even those of an outer jvp, which
        # would then see a constant. Functions do pass them on. Operators may where the saved tensors
        # are outputs alone, which have no tangents of this jvp yet.
        passing = propagating_tangents() if kind.saves_outputs else contextlib.nullcontext()
        with passing, skip_checks(not ctx.checked):
            return kind.tangent(ctx, ctx.saved_tensors, *tangents)

    return type(f"{kind.__name__}WithJvp", (kind,), {"jvp": staticmethod(jvp)})


@functools.cache
def _in_one_step(kind: Any) -> Any:
    def forward(ctx: Any, *inputs: Any) -> Any:
        output = kind.forward(*inputs)
        kind.setup_context(ctx, inputs, output)
        return output

    undefined = torch.autograd.Function.setup_context
    methods = {"forward": staticmethod(forward), "setup_context": staticmethod(undefined)}
    return type(kind.__name__, (kind,), methods)


class Differentiable(torch.autograd.Function):
    """A Function with both modes. ``tangent(ctx, saved, ...)`` calls Functions alone by default."""

    generate_vmap_rule = True
    saves_outputs = False  # True: nothing else is saved, and ``tangent`` may call any operator


_OUTSIDE = (
    "forward-mode derivatives (torch.func.jvp, jacfwd, hessian) of spectral functions do not work inside "
    "torch.compile; take them outside of the compiled function, or use jacrev"
)


def apply(kind: Kind, *args: Any) -> Any:
    """``kind.apply(*args)``, with forward mode where that is possible."""
    if torch.compiler.is_compiling():
        if within_dual_level():
            # An error with this text where the graph has to be whole, and else eager mode. Older compilers
            # hide the text of an exception. In this very frame, because it is the one that is left.
            torch._dynamo.skip_frame(msg=_OUTSIDE)
            raise RuntimeError(_OUTSIDE)  # to whoever else may trace
        return kind.apply(*args)
    if within_dual_level() or within_transform():
        function = _with_jvp(kind).apply
        # Around us a function may be compiled whose graph has ended; then the compiler tries what we call.
        hide = within_dual_level() and "torch._dynamo" in sys.modules
        return torch.compiler.disable(function)(*args) if hide else function(*args)
    # With a setup_context of its own, torch works out the signature of forward at every call, which takes
    # longer than decomposing a small matrix; only torch.func and torch.compile need it.
    return _in_one_step(kind).apply(*args)


def remember(ctx: Any, *tensors: Tensor) -> None:
    """Save tensors for both modes, and whether values may be checked."""
    ctx.checked = checks_enabled()
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*tensors)
    if within_dual_level():
        ctx.save_for_forward(*tensors)


def zero_with_gradient(A: Tensor, *others: Tensor) -> Tensor:
    """A tensor of the shape of ``A`` that takes no memory and stands for a derivative alone.

    A Function that returns it next to its result passes what flows back into it on to ``A``. Its
    backward can then be differentiated with respect to ``A`` without saving ``A`` itself, which users
    may change in place. It is batched under ``torch.vmap`` if ``A`` or one of the others is.
    """
    zero = A.new_zeros(())
    for other in others:
        zero = zero + other.new_zeros((), dtype=A.dtype)
    expanded = zero.expand(A.shape)
    # A tangent needs as much memory as its tensor seems to have.
    return expanded.contiguous() if within_dual_level() else expanded


class _Sum(Differentiable):
    @staticmethod
    def forward(a: Tensor, b: Tensor) -> Tensor:
        return a + b

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        remember(ctx)

    @staticmethod
    def backward(ctx: Any, g: Tensor | None) -> tuple[Tensor | None, ...]:
        return g, g

    @staticmethod
    def tangent(ctx: Any, saved: object, a: Tensor | None, b: Tensor | None) -> Tensor | None:
        return add(a, b)


class Hidden:
    """A tensor that a Function uses without a derivative, where autograd must not see it as an input.

    A node whose only other input is wanted is then not asked for a derivative that may not exist.
    """

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


def hide_from_autograd(tensor: Tensor, *others: Tensor) -> Tensor | Hidden:
    """Hide a tensor from autograd; not from transformations, which need to see all tensors."""
    seen = torch.compiler.is_compiling() or is_mapped(tensor, *others)
    return tensor if seen else Hidden(tensor)


def is_mapped(*tensors: Tensor) -> bool:
    """Whether forward mode, or a transformation of ``torch.func``, is at work on these tensors."""
    traced = torch.compiler.is_compiling()
    return within_dual_level() or (not traced and any(map(is_transformed, tensors)))


def add(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """The sum of two derivatives, either of which may be absent, also inside a ``tangent``."""
    if a is None or b is None:
        return b if a is None else a
    total: Tensor = apply(_Sum, a, b) if within_dual_level() else a + b
    return total


def quotient(a: Tensor | float, b: Tensor) -> Tensor:
    """``a / b``, and 0 where ``b`` is 0."""
    null = b == 0
    return torch.where(null, 0, a / torch.where(null, 1, b))


def hermitian_part(A: Tensor) -> Tensor:
    """``(A + A^H) / 2``."""
    return (A + A.mH) * 0.5  # also exact, and quicker to start than a division
