"""Which positions of an image carry a decision: the logit of a class as a sum over positions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rootpool.nn import AveragePool, BranchPool, CovariancePool

from .backbones import Features
from .classifier import PooledClassifier

__all__ = ["contributions"]


def contributions(model: PooledClassifier, images: Tensor, classes: Tensor) -> Tensor:
    """What each position of the pooled map adds to the logit of a class of each image.

    It is the gradient of the logit with respect to the reduced features, through the root, times these
    features without their mean (for averages: times the features), summed over the channels. The root of a
    covariance is homogeneous of degree one in the features, so the positions add up to the logit without its
    bias. That holds for methods of degree one without a scaling: roots and averages.

    Args:
        model: in evaluation mode.
        images: ``(B, C, H, W)``.
        classes: ``(B,)``, one class for each.

    Returns:
        ``(B, h, w)``, or ``(B, N)`` for a map without height and width; the sum over the branches, if there
        are several.

    >>> from rootpool.models import create_model
    >>> model = create_model("patchnet", "exact", num_classes=5).eval()
    >>> images, classes = torch.randn(2, 1, 28, 28), torch.tensor([1, 4])
    >>> shares = contributions(model, images, classes)
    >>> shares.shape
    torch.Size([2, 7, 7])
    >>> logits = (model(images) - model.classifier.bias)[[0, 1], classes]
    >>> torch.allclose(shares.flatten(1).sum(1), logits, rtol=1e-3, atol=1e-4)
    True
    """
    with torch.enable_grad():
        parts = [
            _Part(pool, maps) for pool, maps in _branches(model, model.forward_features(images))
        ]
        logits = model.classifier(torch.cat([part.pooled() for part in parts], 1))
        chosen = logits.gather(1, classes.to(logits.device).unsqueeze(1)).sum()
        gradients = torch.autograd.grad(chosen, [part.reduced for part in parts])
    found = [part.shares(gradient) for part, gradient in zip(parts, gradients, strict=True)]
    shapes = {tuple(map.shape) for map in found}
    if len(shapes) > 1:
        raise ValueError(f"the branches have different positions, {shapes}, which cannot be added")
    return torch.stack(found).sum(0)


def _branches(model: PooledClassifier, features: Features) -> list[tuple[Any, Tensor]]:
    pool: Any = model.pool
    pairs = [(pool, features)]
    if isinstance(pool, BranchPool):
        pairs = [(p, features[stage]) for stage, p in zip(pool.stages, pool.pools, strict=True)]
    for one, _ in pairs:
        if not isinstance(one, CovariancePool | AveragePool):
            raise ValueError(
                f"contributions needs poolings of covariances or averages, got {type(one).__name__}"
            )
    return pairs


class _Part:
    """One pooling and the reduced features that it pools."""

    def __init__(self, pool: Any, features: Tensor) -> None:
        self.pool = pool
        self.flat = features.dim() == 3
        features = features.unsqueeze(-1) if self.flat else features
        self.reduced = pool.reduction(features).detach().requires_grad_()

    def pooled(self) -> Tensor:
        found: Tensor = self.pool.pool(self.reduced).flatten(1)
        return found if self.pool.scaling is None else self.pool.scaling(found)

    def shares(self, gradient: Tensor) -> Tensor:
        values = self.reduced.detach()
        if isinstance(self.pool, CovariancePool):
            values = values - values.mean((2, 3), keepdim=True)
        found = (gradient * values).sum(1)
        return found.squeeze(-1) if self.flat else found
