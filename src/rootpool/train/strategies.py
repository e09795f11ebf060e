"""How several processes share a training: by names and options of Lightning's strategies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy, Strategy
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import (
    bf16_compress_hook,
    fp16_compress_hook,
)
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

__all__ = ["Sharded", "make_strategy"]

HOOKS = {None: None, "bfloat16": bf16_compress_hook, "float16": fp16_compress_hook}


class Sharded(ModelParallelStrategy):
    """FSDP by torch's ``fully_shard``: each process keeps its share of weights, gradients and momenta.

    A checkpoint is one file with all weights, and goes on with any strategy. (Lightning's ``FSDPStrategy``
    flattens weights, so that biases cannot be told from others, and runs code from a checkpoint.)
    """

    def __init__(self, reduce_dtype: str | None = None, **options: Any) -> None:
        super().__init__(tensor_parallel_size=1, save_distributed_checkpoint=False)
        reduced = None if reduce_dtype is None else getattr(torch, reduce_dtype)
        self.options = {"mp_policy": MixedPrecisionPolicy(reduce_dtype=reduced), **options}

    def setup_environment(self) -> None:
        self._data_parallel_size = self.num_nodes * self.num_processes
        super().setup_environment()

    def shard(self, *parts: nn.Module) -> None:
        """Share out each part, whose weights are gathered when it is called."""
        for part in parts:
            if not isinstance(part, FSDPModule):
                fully_shard(part, mesh=self.device_mesh["data_parallel"], **self.options)


def make_strategy(given: str | Mapping[str, Any]) -> str | Strategy:
    """A strategy by its name, or by the values of `StrategySettings`."""
    if isinstance(given, str) and given != "fsdp":
        return given
    options = {"name": given} if isinstance(given, str) else dict(given)
    options = {key: value for key, value in options.items() if value is not None}
    name, reduced = options.pop("name"), options.pop("reduce_dtype", None)
    if name == "fsdp":
        return Sharded(reduced, **options)
    return DDPStrategy(ddp_comm_hook=HOOKS[reduced], **options)
