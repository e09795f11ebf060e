r"""NOG and OLR: a better conditioned covariance by the gradient of the layer before it.

The weights W of that layer mix the channels of the covariance. Two changes of their gradient L keep them near
an orthogonal matrix: its polar factor takes its place (the nearest orthogonal gradient, NOG), or its learning
rate becomes, where that is between 0 and the optimizer's (the optimal learning rate, OLR),

.. math:: \eta^* = \frac{l \cdot w}{l \cdot l + 2 (l \cdot w)^2 / (w \cdot w)}

with W and L as vectors w and l.

Reference: Song, Sebe and Wang, Improving covariance conditioning of the SVD meta-layer by orthogonality,
ECCV 2022.
"""

from __future__ import annotations

from typing import Any

import lightning.pytorch as pl
import torch
from torch import Tensor, nn

from rootpool.linalg import orthogonalize
from rootpool.nn import covariance_pools

from .config import SettingsError

__all__ = ["OrthogonalGradient"]


class OrthogonalGradient(pl.Callback):
    """Callback that changes the gradient of the last convolution or linear layer before the first covariance.

    A gradient that is made orthogonal has singular values of 1, whatever the loss: the learning rate is then
    the length of its steps. The optimal rate enters the gradient as its ratio to the optimizer's, so momentum
    remembers it. An optimizer that divides by the size of gradients, such as Adam, undoes both.

    Args:
        conditioning: ``"nog"``, ``"olr"``, or ``"nog+olr"``, as in recipes.
    """

    def __init__(self, conditioning: str = "nog") -> None:
        self.conditioning = conditioning
        self.layer: Any = None

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        pool = next(iter(covariance_pools(pl_module).values()), None)
        layers: list[nn.Module] = []
        for module in pl_module.modules():
            if module is pool:
                layers += pool.reduction.modules()
                break
            layers.append(module)
        mixing = [layer for layer in layers if isinstance(layer, nn.Conv2d | nn.Linear)]
        if pool is None or not mixing:
            raise SettingsError(
                "conditioning is for the convolution before a covariance, and this model has none; leave it "
                "out, or choose a method other than gap"
            )
        self.layer = mixing[-1]

    @torch.no_grad()
    def on_before_optimizer_step(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, optimizer: torch.optim.Optimizer
    ) -> None:
        weight: Tensor = self.layer.weight
        groups = optimizer.param_groups
        rate = next((g["lr"] for g in groups if any(p is weight for p in g["params"])), None)
        if weight.grad is None or not rate:  # frozen
            return
        wide = torch.promote_types(weight.dtype, torch.float32)
        gradient = weight.grad.flatten(1).to(wide)
        if "nog" in self.conditioning:
            gradient = orthogonalize(gradient)
        if "olr" in self.conditioning:
            w, g = weight.flatten().to(wide), gradient.flatten()
            best = g @ w / (g @ g + 2 * (g @ w).square() / (w @ w))  # NaN where one is zero
            gradient = gradient * torch.where((best > 0) & (best < rate), best / rate, 1)
        weight.grad.copy_(gradient.view_as(weight))
