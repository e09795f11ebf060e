"""Count how often an operation would make the host wait for an accelerator, with CPU tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

# Operators that bring values to Python.
WAITS = ("aten::_local_scalar_dense", "aten::equal", "aten::nonzero", "aten::is_nonzero")
INDEXED = ("aten::index", "aten::index_put_", "aten::index_put")  # these wait for a mask


class Waits(TorchDispatchMode):
    """Count the operators whose outcome the host has to know."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __enter__(self) -> Waits:
        plain = self.tolist = Tensor.tolist  # no operator on a CPU, and a wait elsewhere

        def counted(tensor: Tensor) -> list[Any]:
            self.count += tensor.dim() > 0  # that of one number is counted as such
            return plain(tensor)

        Tensor.tolist = counted
        return super().__enter__()

    def __exit__(self, *exception: object) -> None:
        Tensor.tolist = self.tolist
        super().__exit__(*exception)

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name = function.name().split(".")[0]
        masks = name in INDEXED and any(i is not None and i.dtype == torch.bool for i in args[1])
        self.count += name in WAITS or masks
        return function(*args, **(kwargs or {}))


def waits_of_a_step(
    function: Callable[[Tensor], Iterable[Tensor]], batch: Tensor
) -> tuple[int, int]:
    """Waits of the forward, and of the backward."""
    batch = batch.detach().clone().requires_grad_()
    with Waits() as forward:
        parts = list(function(batch))
    loss = torch.stack([part.square().sum() for part in parts]).sum()
    with Waits() as backward:
        loss.backward()
    return forward.count, backward.count
