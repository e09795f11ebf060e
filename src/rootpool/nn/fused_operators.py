"""The fused root as a function, or as an operator for tracers (``torch.compile``, ``torch.jit.trace``).

Operators take no objects: a method is passed as text, the name under which it is registered and its fields.
"""

from __future__ import annotations

import ast
import dataclasses
import math
import numbers

import torch
from torch import Tensor

from rootpool.linalg._private import NOT_IN_CUDA_GRAPHS
from rootpool.linalg.checks import is_concrete
from rootpool.linalg.decompose import without_derivative

from .fused import Plan, root, root_gradient, unfilled
from .registry import METHODS, is_registered
from .spectral_roots import SpectralRoot

__all__ = ["backward_op", "encoded", "run"]


def encoded(method: SpectralRoot | str) -> str:
    """The registered name of a method and its fields, as text."""
    if isinstance(method, str):
        return method
    if not is_registered(method):
        raise TypeError(
            f"torch.compile and torch.export need the name of {method}, which METHODS does not have; "
            "decorate its class with rootpool.nn.register"
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
def backward_op(g: Tensor, W: Tensor, K: Tensor, s: Tensor, method: str) -> Tensor:
    """:func:`root_gradient` for tracers."""
    return root_gradient(g, W, K, s, _decoded(method))


without_derivative(_forward_op)
_forward_op.register_fake(lambda X, *plan: unfilled(X, Plan(*plan[:-1]), plan[-1]))


@backward_op.register_fake
def _(g: Tensor, W: Tensor, K: Tensor, s: Tensor, method: str) -> Tensor:
    return g.new_empty(W.shape[0], W.shape[1], K.shape[2])


def run(X: Tensor, plan: Plan, save: bool) -> tuple[Tensor, ...]:
    """:func:`root`, in the way that the tensor asks for; text is for tracers alone."""
    if isinstance(plan.method, SpectralRoot) and is_concrete(X):
        return root(X, plan, save)
    options = (plan.dtype, plan.kept, plan.output, plan.solver_device)
    factors: tuple[Tensor, ...] = _forward_op(X, encoded(plan.method), *options, save)
    return factors
