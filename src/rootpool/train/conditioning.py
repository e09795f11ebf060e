r"""A better conditioned covariance by the gradient of the layer before it: NOG and OLR.

The channels of a covariance are mixtures by the weights W of the layer before it. Two changes of its
gradient L, as a matrix with a row per output channel, keep these weights near an orthogonal matrix:

* *nearest orthogonal gradient* (NOG): :math:`L \leftarrow U V^T`, the polar factor of :math:`L = U S V^T`;
* *optimal learning rate* (OLR): where it is between 0 and the optimizer's, the rate of this layer is

  .. math:: \eta^* = \frac{(w \cdot w)(l \cdot w)}{(w \cdot w)(l \cdot l) + 2 (l \cdot w)^2}

  (w and l are W and L as vectors).

Reference: Song, Sebe and Wang, Improving covariance conditioning of the SVD meta-layer by orthogonality,
ECCV 2022.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import lightning.pytorch as pl
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rootpool.linalg import orthogonalize
from rootpool.nn import covariance_pools

from .config import SettingsError

__all__ = ["Conditioning", "OrthogonalGradient", "layer_before", "optimal_rate"]

Conditioning = Literal["nog", "olr", "nog+olr"]


def optimal_rate(weight: Tensor, gradient: Tensor, rate: float | Tensor) -> Tensor:
    """The optimal learning rate of a layer, where it is between 0 and ``rate``; else ``rate``.

    >>> w, g = torch.tensor([[2.0, 0.0]]), torch.tensor([[1.0, 1.0]])
    >>> optimal_rate(w, g, 0.5), optimal_rate(w, -g, 0.5)
    (tensor(0.5000), tensor(0.5000))
    >>> optimal_rate(w / 4, g, 0.5)
    tensor(0.1250)
    """
    # In units of the largest entries neither squares nor their products leave the range.
    w, g = weight.detach().flatten(), gradient.flatten()
    unit_w, unit_g = (torch.where(m == 0, 1, m) for m in (w.abs().amax(), g.abs().amax()))
    w, g = w / unit_w, g / unit_g
    ww, gw, gg = w @ w, g @ w, g @ g
    bottom = ww * gg + 2 * gw.square()
    best = ww * gw / torch.where(bottom == 0, 1, bottom) * (unit_w / unit_g)
    return torch.where((best > 0) & (best < rate), best, rate)


class OrthogonalGradient(pl.Callback):
    """Callback that changes the gradient of the layer before the covariance, for its condition.

    With several processes the gradient is their mean already. A gradient that is made orthogonal has singular
    values of 1, whatever the loss: the learning rate is then the length of its steps. The optimal rate is put
    into the gradient, as its ratio to the rate of the optimizer, so that momentum remembers it, and schedules
    and checkpoints stay as they are. An optimizer that divides by the size of gradients, such as Adam,
    undoes both.

    Args:
        conditioning: ``"nog"``, ``"olr"``, or ``"nog+olr"``, as in recipes.
        layer: whose weight it is; None for the one that :func:`layer_before` finds.

    >>> OrthogonalGradient("nog").conditioning
    'nog'
    """

    def __init__(self, conditioning: Conditioning = "nog", layer: nn.Module | None = None) -> None:
        if conditioning not in get_args(Conditioning):
            raise SettingsError(
                f"conditioning must be one of {', '.join(get_args(Conditioning))}, got {conditioning!r}"
            )
        self.conditioning = conditioning
        self.layer = layer

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        self.layer = self.layer or layer_before(pl_module)

    @torch.no_grad()
    def on_before_optimizer_step(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, optimizer: Optimizer
    ) -> None:
        weight: Any = self.layer.weight  # type: ignore[union-attr]
        rates = [
            float(group["lr"])
            for group in optimizer.param_groups
            if any(parameter is weight for parameter in group["params"])
        ]
        if weight.grad is None or not rates:  # frozen
            return
        if "nog" in self.conditioning:
            matrix = weight.grad.flatten(1)
            wide = torch.promote_types(matrix.dtype, torch.float32)
            weight.grad.copy_(orthogonalize(matrix.to(wide)).view_as(weight))
        if "olr" in self.conditioning and rates[0]:
            weight.grad *= optimal_rate(weight, weight.grad, rates[0]) / rates[0]


def layer_before(model: nn.Module) -> nn.Module:
    """The last layer that mixes channels before the first covariance: that of its reduction, if it has one.

    >>> from rootpool.models import create_model
    >>> layer_before(create_model("patchnet", "exact", 3, reduction=16))
    Conv2d(64, 16, kernel_size=(1, 1), stride=(1, 1), bias=False)
    """
    pool = next(iter(covariance_pools(model).values()), None)
    before: list[nn.Module] = []
    for module in model.modules():
        parts = pool.reduction.modules() if pool is not None and module is pool else [module]
        before += [part for part in parts if isinstance(part, nn.Conv2d | nn.Linear)]
        if module is pool:
            break
    if pool is None or not before:
        raise SettingsError(
            "conditioning is for the convolution before a covariance, and this model has none; leave it out, "
            "choose a method other than gap, or give the layer: OrthogonalGradient(layer=...)"
        )
    return before[-1]
