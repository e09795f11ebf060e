"""Sums over the processes of a group, with their gradient."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

ProcessGroup = (
    Any  # torch.distributed.ProcessGroup, which not every torch has; None is the default one
)


class _SumOverProcesses(torch.autograd.Function):
    """The gradient of a sum is the sum of the gradients."""

    @staticmethod
    def forward(value: Tensor, group: ProcessGroup) -> Tensor:
        total = value.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.group = inputs[1]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _SumOverProcesses.apply(gradient, ctx.group), None


def is_distributed(group: ProcessGroup = None) -> bool:
    """Whether there is more than one process in the group."""
    if not (dist.is_available() and dist.is_initialized()):
        return False
    size = dist.get_world_size(group)
    if size < 1:
        raise ValueError(
            f"process {dist.get_rank()} is not in the given process group; give it a group of its own"
        )
    return size > 1


def sum_over_processes(value: Tensor, group: ProcessGroup = None) -> Tensor:
    """The sum over the processes of a group; the value itself where there is only one."""
    if not is_distributed(group):
        return value
    total: Tensor = _SumOverProcesses.apply(value, group)
    return total
