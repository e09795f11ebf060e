"""What an accelerator would be asked to do: operators on fake ``cuda`` tensors, counted.

Fake tensors have shape, dtype and device, and no values. So nothing is computed, and no GPU is needed: a look
at a value gets the answer that nothing is wrong, and so the step is an ordinary one. Every operator that is
neither a view nor an allocation is counted as one launch of a kernel, although some of them launch more.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.autograd.function import BackwardCFunction
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from rootpool.linalg import checks
from rootpool.nn import triangle

# Operators that bring values to Python, and those that do so for a mask.
WAITS = {"_local_scalar_dense", "equal", "nonzero", "is_nonzero"}
INDEXED = {"index", "index_put_", "index_put"}
NO_KERNEL = {
    "view", "_unsafe_view", "expand", "transpose", "permute", "t", "slice", "select", "unsqueeze", "squeeze",
    "detach", "alias", "as_strided", "diagonal", "split", "unbind", "split_with_sizes", "empty",
    "empty_strided", "new_empty", "new_empty_strided", "empty_like", "lift_fresh", "_local_scalar_dense",
    "scalar_tensor", "view_as_real", "unflatten", "resolve_conj",
}  # fmt: skip
SOLVERS = {"_linalg_eigh", "linalg_eigh", "_linalg_svd", "linalg_qr", "linalg_cholesky_ex"}


@dataclass
class Counts:
    """What one direction of a step asks of the device and of the host."""

    launches: int = 0
    waits: int = 0  # also one in each solver, which looks whether it has converged
    solvers: Counter[str] = field(default_factory=Counter)
    on_cpu: list[str] = field(default_factory=list)


def _name(function: Any) -> str:
    return function.name().split(".")[0].removeprefix("aten::")


class Waits(TorchDispatchMode):
    """Count the operators whose outcome the host has to know; of ordinary tensors, too."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __enter__(self) -> Waits:
        plain = Tensor.tolist  # no operator on a CPU, and a wait elsewhere

        def counted(tensor: Tensor) -> list[Any]:
            self.count += tensor.device.type == "cpu" and tensor.dim() > 0
            return plain(tensor)

        self._tolist = mock.patch.object(Tensor, "tolist", counted)
        self._tolist.start()
        return super().__enter__()

    def __exit__(self, *exception: object) -> None:
        self._tolist.stop()
        super().__exit__(*exception)

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name = _name(function)
        masks = name in INDEXED and any(i is not None and i.dtype == torch.bool for i in args[1])
        self.count += name in WAITS or masks
        return self.compute(function, name, args, kwargs or {})

    def compute(self, function: Any, name: str, args: tuple[Any, ...], kwargs: Any) -> Any:
        return function(*args, **kwargs)


def waits_of_a_step(
    function: Callable[[Tensor], Iterable[Tensor]], batch: Tensor
) -> tuple[int, int]:
    """Waits of the forward and of the backward, of ordinary tensors."""
    batch = batch.detach().clone().requires_grad_()
    with Waits() as forward:
        parts = list(function(batch))
    loss = torch.stack([part.square().sum() for part in parts]).sum()
    with Waits() as backward:
        loss.backward()
    return forward.count, backward.count


class Counting(Waits):
    """All counts, of fake tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = Counts()

    def following(self) -> Counting:
        """What counts the backward."""
        return type(self)()

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)
        self.counts.waits = self.count + sum(self.counts.solvers.values())

    def compute(self, function: Any, name: str, args: tuple[Any, ...], kwargs: Any) -> Any:
        counts = self.counts
        launched = function.name().startswith("aten::") and name not in NO_KERNEL
        counts.launches += launched
        if name in ("_local_scalar_dense", "is_nonzero", "equal"):
            return _nothing_wrong(name, args[0])
        result = function(*args, **kwargs)
        tensors = [t for t in tree_leaves((args, kwargs, result)) if isinstance(t, Tensor)]
        if name in SOLVERS:
            shape = "x".join(map(str, args[0].shape))
            counts.solvers[f"{name.strip('_')} {shape} {_short(args[0])}"] += 1
        if name == "all":
            result.of_all = True  # all as they should be; other operators ask whether any is not
        if any(t.device.type == "cpu" and t.numel() for t in tensors):
            counts.on_cpu.append(name)
        return result


def _short(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _nothing_wrong(name: str, tensor: Tensor) -> object:
    if name == "equal":
        return True
    if name == "is_nonzero" or tensor.dtype == torch.bool:
        return hasattr(tensor, "of_all")
    return 1.0 if tensor.is_floating_point() else 0


@contextlib.contextmanager
def fake_cuda() -> Iterator[FakeTensorMode]:
    """A context in which fake tensors take the path of real ones, and cached constants are its own."""
    cached = [f for f in vars(triangle).values() if hasattr(f, "cache_clear")]
    plain = (*checks._PLAIN_TYPES, FakeTensor)
    for function in cached:
        function.cache_clear()
    try:
        with (
            mock.patch.object(checks, "_PLAIN_TYPES", plain),
            mock.patch.object(Tensor, "register_hook", _note_hook),
            mock.patch.object(Tensor, "tolist", lambda t: [t.select(0, 0).item()] * len(t)),
            FakeTensorMode(allow_non_fake_inputs=True) as mode,
        ):
            yield mode
    finally:
        _HOOKS.clear()
        for function in cached:
            function.cache_clear()


def counted(
    function: Callable[[Tensor], Iterable[Tensor]],
    *shape: int,
    dtype: torch.dtype = torch.float32,
    warm: bool = False,
    kind: type[Counting] = Counting,
) -> tuple[Counts, Counts, Tensor]:
    """Counts of the forward and of the backward of a step, and the gradient; the second step if ``warm``."""
    with fake_cuda():
        for _ in range(1 + warm):
            batch = torch.empty(shape, dtype=dtype, device="cuda", requires_grad=True)
            with kind() as forward:
                outputs = [t for t in function(batch) if t.requires_grad]
            upstream = [torch.empty_like(t) for t in outputs]
            with forward.following() as backward:
                gradient = _backward(outputs, upstream)[batch]
        return forward.counts, backward.counts, gradient


_HOOKS: dict[Any, list[tuple[int, Any]]] = {}


def _note_hook(tensor: Tensor, hook: Any) -> None:
    """Hooks of tensors are run by the walk; those of nodes (of eigh and svd) cannot be had."""
    _HOOKS.setdefault(tensor.grad_fn, []).append((tensor.output_nr, hook))


def _backward(outputs: list[Tensor], upstream: list[Tensor]) -> dict[Tensor, Tensor]:
    """Walk the graph by hand: autograd's engine wants the context of a real device.

    Tested against the engine on the CPU.
    """
    buffers: dict[Any, dict[int, Tensor]] = {}
    for output, g in zip(outputs, upstream, strict=True):
        buffers.setdefault(output.grad_fn, {})[output.output_nr] = g
    leaves: dict[Tensor, Tensor] = {}
    for node in _in_order(set(buffers)):
        arrived = buffers.pop(node, {})
        if hasattr(node, "variable"):
            leaves[node.variable] = arrived[0]
            continue
        gradients = [arrived.get(k) for k in range(len(node._input_metadata))]
        with torch.no_grad():
            for k, hook in _HOOKS.get(node, ()):
                hook(gradients[k])
            passed = (node.apply if isinstance(node, BackwardCFunction) else node)(*gradients)
        passed = passed if isinstance(passed, tuple) else (passed,)
        # Tensors come first among the arguments of our Functions; what follows has no gradient.
        for (following, k), g in zip(node.next_functions, passed, strict=False):
            if following is not None and g is not None:
                wanted = following._input_metadata[k]
                g = g.sum_to_size(tuple(wanted.shape)).to(wanted.dtype)
                slots = buffers.setdefault(following, {})
                slots[k] = g if k not in slots else slots[k] + g
    return leaves


def _in_order(roots: set[Any]) -> list[Any]:
    """Nodes of the graph, each after all that pass a gradient to it."""
    order: list[Any] = []
    seen: set[Any] = set()

    def visit(node: Any) -> None:
        if node is None or node in seen:
            return
        seen.add(node)
        for following, _ in node.next_functions:
            visit(following)
        order.append(node)

    for root in roots:
        visit(root)
    return order[::-1]
