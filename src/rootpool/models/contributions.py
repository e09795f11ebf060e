"""Which positions of an image carry a decision: the logit of a class as a sum over positions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rootpool.nn import CovariancePool

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
        ``(B, h, w)``, or ``(B, N)`` for a map without height and width.

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
    pool: Any = model.pool
    if not hasattr(pool, "reduction"):
        raise ValueError(f"contributions needs one pooling of one map, got {type(pool).__name__}")
    with torch.enable_grad():
        features = model.forward_features(images)
        flat = features.dim() == 3
        if flat:
            features = features.unsqueeze(-1)
        reduced = pool.reduction(features).detach().requires_grad_()
        pooled = pool.pool(reduced)
        if pool.scaling is not None:
            pooled = pool.scaling(pooled)
        logits = model.classifier(pooled.flatten(1))
        chosen = logits.gather(1, classes.to(logits.device).unsqueeze(1)).sum()
        (gradient,) = torch.autograd.grad(chosen, reduced)
    values = reduced.detach()
    if isinstance(pool, CovariancePool):
        values = values - values.mean((2, 3), keepdim=True)
    found = (gradient * values).sum(1)
    return found.squeeze(-1) if flat else found
