"""Networks that do not train."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

__all__ = ["Frozen"]


class Frozen(nn.Module):
    """A network that does not train: no gradient, and always in evaluation mode.

    >>> model = nn.Sequential(Frozen(nn.BatchNorm2d(3)), nn.Conv2d(3, 4, 1)).train()
    >>> [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    ['1.weight', '1.bias']
    >>> model[0].network.training
    False
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network.requires_grad_(False)
        self.train(False)

    def train(self, mode: bool = True) -> Frozen:
        super().train(mode)
        self.network.eval()
        return self

    def __getattr__(self, name: str) -> Any:
        """What it does not have itself, such as ``num_features``, is that of the network."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "network":
                raise
            return getattr(self.network, name)

    def forward(self, *inputs: Any) -> Any:
        with torch.no_grad():
            return self.network(*inputs)
