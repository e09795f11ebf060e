"""Which derivatives are wanted, and which form of an autograd Function can give them."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.forward_ad import unpack_dual

__all__ = ["mode_for", "needs_derivative"]

Kind = type[torch.autograd.Function]


def mode_for(plain: Kind, with_jvp: Kind) -> Kind:
    """``with_jvp``, a subclass that adds a ``jvp``; ``plain`` while a compiler traces.

    The compiler refuses every Function that has a ``jvp``, whether it is used or not.
    """
    return plain if torch.compiler.is_compiling() else with_jvp


def needs_derivative(A: Tensor) -> bool:
    """Whether reverse or forward mode follows ``A``, which is plain: no tracer, no ``torch.func``."""
    return (A.requires_grad and torch.is_grad_enabled()) or unpack_dual(A).tangent is not None
