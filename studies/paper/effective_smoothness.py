r"""Effective :math:`\beta`-smoothness of a loss (Santurkar et al. 2018).

The gradient of a :math:`\beta`-smooth loss changes by at most :math:`\beta` times the distance. How
much it really changes along the direction of an optimizer's step is

.. math:: \beta_{\mathrm{eff}} = \max_t
    \frac{\| g(\theta) - g(\theta - t\, g(\theta)) \|}{\| t\, g(\theta) \|}

over a range of steps t. A small value means a smooth loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["effective_smoothness"]

Loss = Callable[[nn.Module, Any], Tensor]
Parameters = dict[str, Tensor]
STEPS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)  # about the paper's learning rates, 10^-1.1 at first


class _LossOf(nn.Module):
    """The loss as a module around the model, so that it can be called with other parameters."""

    loss: Loss

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        super().__init__()
        self.model = model
        object.__setattr__(self, "loss", loss)  # not a submodule, even if it is a module

    def forward(self, batch: Any) -> Tensor:
        value: Tensor = self.loss(self.model, batch)
        if value.numel() != 1:
            raise ValueError(f"loss(model, batch) must be one number, got {tuple(value.shape)}")
        return value.reshape(())


def _gradient_function(
    model: nn.Module, loss: Loss, batch: Any
) -> Callable[[Parameters], Parameters]:
    """A function from parameters to gradients that leaves the model unchanged.

    The model is called with the given parameters and with copies of its buffers. Every call uses the same
    random numbers (dropout) and restores the state of the generator.
    """
    wrapped = _LossOf(model, loss)
    accelerators = {p.device for p in model.parameters() if p.device.type != "cpu"}
    kind = next((device.type for device in accelerators), "cuda")

    def gradient(parameters: Parameters) -> Parameters:
        leaves = {name: p.detach().requires_grad_() for name, p in parameters.items()}
        buffers = {f"model.{name}": b.clone() for name, b in model.named_buffers()}
        with torch.random.fork_rng(list(accelerators), device_type=kind), torch.enable_grad():
            value = torch.func.functional_call(wrapped, {**leaves, **buffers}, (batch,))
            gradients = torch.autograd.grad(
                value, list(leaves.values()), allow_unused=True, materialize_grads=True
            )
        return dict(zip(leaves, gradients, strict=True))

    return gradient


def _norm(tensors: Iterable[Tensor]) -> Tensor:
    norms = [torch.linalg.vector_norm(t.double()).cpu() for t in tensors]
    return torch.linalg.vector_norm(torch.stack(norms))


def effective_smoothness(
    model: nn.Module,
    loss: Loss,
    batch: Any,
    *,
    steps: Sequence[float] = STEPS,
) -> dict[str, float]:
    r"""The largest change of the gradient over the distance, along the gradient.

    The model is unchanged afterwards: parameters, their ``grad``, buffers (running statistics), training
    mode and random numbers. Dropout uses the same mask in every evaluation.

    Args:
        model: any module; only parameters that require a gradient count.
        loss: ``loss(model, batch)``, a tensor of one element.
        batch: passed to ``loss``.
        steps: the values of t in the formula, in units of a learning rate.

    Returns:
        ``beta``; ``step``, the t at which it is reached; ``gradient_norm`` at the parameters. ``beta``
        is NaN if the gradient is zero (there is no direction) or not finite.

    >>> model = nn.Linear(1, 1, bias=False)
    >>> effective_smoothness(model, lambda m, x: 1.5 * m(x).square().sum(), torch.ones(1, 1))[
    ...     "beta"
    ... ]
    3.0...
    """
    if not steps or not all(t > 0 and math.isfinite(t) for t in steps):
        raise ValueError(f"steps must be positive and finite, at least one, got {steps!r}")
    start = {f"model.{n}": p.detach() for n, p in model.named_parameters() if p.requires_grad}
    if not start:
        raise ValueError("no parameter of the model requires a gradient, so there is no direction")
    gradient = _gradient_function(model, loss, batch)
    here = gradient(start)
    norm = _norm(here.values())
    ratios = []
    for t in steps:
        there = gradient({name: p - t * here[name] for name, p in start.items()})
        ratios.append(_norm(there[name] - here[name] for name in start) / (t * norm))
    beta, which = torch.stack(ratios).max(0)  # NaN wins
    return {"beta": float(beta), "step": float(steps[int(which)]), "gradient_norm": float(norm)}
