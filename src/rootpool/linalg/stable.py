"""Our decompositions inside code that calls those of torch: a context that replaces them.

A ``TorchFunctionMode`` sees every call of torch in its thread. It is not active while one of these calls
is at work, and ``backward`` and ``autograd.grad`` are such calls: a checkpoint would then recompute its
forward pass by torch's own decompositions. So these calls are passed on with the mode switched on again,
and with edges of the graph instead of tensors: torch does not look for somebody who overrides those.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import get_gradient_edge
from torch.overrides import TorchFunctionMode

from ._private import is_transformed, within_transform
from .checks import DTYPES, needs_grad
from .eigh import eigh
from .functions import sqrtm
from .polar import polar
from .rules import Rule, resolve_rule
from .spectra import eigvalsh, svdvals
from .svd import svd

types: Any = torch.return_types


# --------------------------------------------------------------------------------------------------
# With the arguments and results of torch; what follows ``rule`` are the names of torch's arguments


def _old_svd(rule: Rule, input: Tensor, some: bool = True, compute_uv: bool = True) -> Any:
    if not compute_uv:
        (m, n), lead = input.shape[-2:], input.shape[:-2]
        zeros = (input.new_zeros(*lead, k, k) for k in (m, n))
        return types.svd((next(zeros), svdvals(input), next(zeros)))
    U, S, Vh = svd(input, not some, rule=rule)
    return types.svd((U, S, Vh.mH))


def _nuclear(
    rule: Rule,
    A: Tensor,
    ord: str,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    i, j = (-2, -1) if dim is None else dim
    matrices = (A if dtype is None else A.to(dtype)).movedim((i, j), (-2, -1))
    norms = svdvals(matrices).sum(-1)
    if not keepdim:
        return norms
    first, second = sorted(k % A.dim() for k in (i, j))
    return norms.unsqueeze(first).unsqueeze(second)


_REPLACED: dict[Any, Callable[..., Any]] = {
    torch.linalg.eigh: lambda rule, A, UPLO="L": types.linalg_eigh(tuple(eigh(A, UPLO, rule=rule))),
    torch.linalg.eigvalsh: lambda rule, A, UPLO="L": eigvalsh(A, UPLO),
    torch.linalg.svd: lambda rule, A, full_matrices=True, *, driver=None: types.linalg_svd(
        tuple(svd(A, full_matrices, rule=rule))
    ),
    torch.linalg.svdvals: lambda rule, A, *, driver=None: svdvals(A),
    torch.svd: _old_svd,
    Tensor.svd: _old_svd,
}
if hasattr(torch.linalg, "polar"):  # from torch 2.15 on
    _REPLACED[torch.linalg.polar] = lambda rule, A: types.linalg_polar(tuple(polar(A)))
    _REPLACED[torch.linalg.matrix_sqrth] = lambda rule, A: sqrtm(A)
_NORMS = (torch.linalg.matrix_norm, torch.linalg.norm, torch.norm, Tensor.norm)


def _replacement(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What stands in for a call; None if torch's own is right."""
    found = _REPLACED.get(func)
    if found is None and func in _NORMS:
        order = args[1] if len(args) > 1 else kwargs.get("ord", kwargs.get("p"))
        found = _nuclear if isinstance(order, str) and order == "nuc" else None
    if found is None or kwargs.get("out") is not None:  # torch has no derivatives with out=
        return None
    A = args[0] if args else kwargs.get("A", kwargs.get("input"))
    return found if isinstance(A, Tensor) and A.dtype in DTYPES and needs_grad(A) else None


# --------------------------------------------------------------------------------------------------
# The mode


class _Stable(TorchFunctionMode):
    """See :func:`stable`."""

    def __init__(self, rule: Rule) -> None:
        super().__init__()
        self.rule = rule

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        ours = _replacement(func, args, kwargs)
        if ours is not None:
            if func in _NORMS and "p" in kwargs:
                kwargs = {"ord" if name == "p" else name: value for name, value in kwargs.items()}
            kwargs = {name: value for name, value in kwargs.items() if name != "out"}
            return ours(self.rule, *args, **kwargs)
        if func in _BACKWARDS and not within_transform():
            return _by_edges(self, func, args, kwargs)
        return func(*args, **kwargs)


def _edges(tensors: Any) -> Any:
    """The edges of tensors; None if one has none, and torch itself should say what is wrong, or know more."""
    several = (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)
    if not all(
        isinstance(t, Tensor) and t.requires_grad and not is_transformed(t) for t in several
    ):
        return None
    return tuple(get_gradient_edge(t) for t in several)


# What walks the graph backward, and what it calls the upstream gradients.
_BACKWARDS = {
    torch.autograd.backward: "grad_tensors",
    Tensor.backward: "gradient",
    torch.autograd.grad: "grad_outputs",
}


def _by_edges(mode: _Stable, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """One of ``_BACKWARDS``, by edges of the graph and with the mode switched on."""
    options = dict(kwargs)
    outputs, *given = args
    inputs = given[0] if given else options.pop("inputs", None)
    edges, targets = _edges(outputs), None if inputs is None else _edges(inputs)
    known = edges is not None and (inputs is None or targets is not None)
    if not known or options.get("is_grads_batched"):
        return func(*args, **kwargs)
    tensors = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    upstream = _ones(tensors, options.pop(_BACKWARDS[func], None))
    with mode:
        if func is not torch.autograd.grad:
            return torch.autograd.backward(edges, upstream, inputs=targets, **options)
        fill = options.pop("materialize_grads", False)
        options["allow_unused"] = True if fill else options.get("allow_unused")
        found = torch.autograd.grad(edges, targets, upstream, **options)
    pairs = zip(found, inputs, strict=True)
    return tuple(torch.zeros_like(t) if g is None else g for g, t in pairs) if fill else found


def _ones(tensors: list[Tensor], upstream: Any) -> list[Any]:
    """Upstream gradients, one for each tensor; 1 for a number."""
    given = (
        [upstream] * len(tensors) if upstream is None or isinstance(upstream, Tensor) else upstream
    )
    pairs = zip(tensors, given, strict=True)
    return [torch.ones_like(t) if g is None and t.numel() == 1 else g for t, g in pairs]


# --------------------------------------------------------------------------------------------------
# For users


def stable(rule: str | Rule = "degenerate") -> contextlib.AbstractContextManager[object]:
    r"""Replace torch's decompositions by ours inside this context, also in other libraries.

    ``torch.linalg.eigh``, ``eigvalsh``, ``svd``, ``svdvals``, ``polar``, ``matrix_sqrth``, nuclear norms,
    ``torch.svd`` and ``Tensor.svd`` keep their arguments, defaults and results, and get the derivatives of
    :func:`eigh`, :func:`svd` and their relatives: finite at ties and zeros, exact for losses that depend on
    eigenspaces as a whole, with a warning for others. Calls that need no derivative, or write to ``out=``,
    are torch's own; the option ``driver`` is ignored. Other calls are passed on.

    The context belongs to the calling thread. It works in eager code and under ``torch.func``,
    ``torch.compile`` and checkpoints, whose backward has to be called inside it too. It does not see what
    others than Python in this thread call: functions of ``torch.jit.script``, C++, operations of torch that
    decompose inside (``pinv``, ``svd_lowrank``), other threads (open a context in each), and the threads in
    which autograd runs the backward of an accelerator: there, give checkpoints
    ``context_fn=lambda: (stable(), stable())``. There is no switch for the whole process: a kernel in torch's
    dispatcher would fail under ``torch.func.grad``, and lose tangents of forward mode.

    Args:
        rule: the gradient rule of eigenvectors and singular vectors, as in :func:`eigh`.

    Returns:
        The context.

    >>> A = torch.eye(2, requires_grad=True)
    >>> with stable():
    ...     U, S, Vh = torch.linalg.svd(A)
    >>> (U @ Vh).sum().backward()  # the polar factor: NaN without the context
    >>> A.grad.isfinite().all()
    tensor(True)
    """
    return _Stable(resolve_rule(rule))
