r"""Effective :math:`\beta`-smoothness of a loss (Santurkar et al. 2018).

The gradient of a :math:`\beta`-smooth loss changes by at most :math:`\beta` times the distance. How
much it really changes along the direction of an optimizer's step is

.. math:: \beta_{\mathrm{eff}} = \max_t
    \frac{\| g(\theta) - g(\theta - t\, g(\theta)) \|}{\| t\, g(\theta) \|}

over a range of steps t. A small value means a smooth loss.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

__all__ = ["effective_smoothness", "loss_of"]

Parameters = dict[str, Tensor]
STEPS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)  # about the paper's learning rates, 10^-1.1 at first


def effective_smoothness(
    loss: Callable[[Parameters], Tensor], parameters: Parameters, steps: Sequence[float] = STEPS
) -> float:
    """The largest change of the gradient over the distance, along the gradient.

    NaN if the gradient is zero, so that there is no direction, or not finite.

    >>> effective_smoothness(
    ...     lambda p: 1.5 * p["w"].square().sum(), {"w": torch.ones(2, dtype=torch.float64)}
    ... )
    3.0...
    """

    def gradient(at: Parameters) -> Tensor:
        leaves = {name: p.detach().requires_grad_() for name, p in at.items()}
        with torch.enable_grad(), torch.random.fork_rng([]):  # the same dropout in every evaluation
            found = torch.autograd.grad(
                loss(leaves), list(leaves.values()), allow_unused=True, materialize_grads=True
            )
        return torch.cat([g.flatten().double() for g in found])

    here = gradient(parameters)
    pieces = here.split([p.numel() for p in parameters.values()])
    named = zip(parameters.items(), pieces, strict=True)
    direction = {name: piece.to(p.dtype).view_as(p) for (name, p), piece in named}
    ratios = []
    for t in steps:
        there = gradient({name: p - t * direction[name] for name, p in parameters.items()})
        ratios.append((there - here).norm() / (t * here.norm()))
    return float(torch.stack(ratios).max())  # NaN wins


def loss_of(
    model: nn.Module, batch: tuple[Tensor, Tensor]
) -> tuple[Callable[[Parameters], Tensor], Parameters]:
    """The cross-entropy of a batch as a function of the parameters, and these; the model stays unchanged."""
    images, labels = batch

    def loss(parameters: Parameters) -> Tensor:
        buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
        logits = torch.func.functional_call(model, {**parameters, **buffers}, (images,))
        return nn.functional.cross_entropy(logits, labels)

    return loss, {n: p.detach() for n, p in model.named_parameters() if p.requires_grad}
