"""Parameter groups for fine-tuning."""

from __future__ import annotations

from typing import Any

from torch import nn

from .classifier import PooledClassifier


def parameter_groups(
    model: PooledClassifier,
    lr: float = 6e-3,
    backbone_lr: float = 1.2e-3,
    pool_lr: float | None = None,
    decay_norms: bool = True,
) -> list[dict[str, Any]]:
    """Groups for an optimizer: backbone and pooling with one learning rate, classifier with another.

    The defaults are the paper's for fine-grained data: 6e-3 for the last layer and 1.2e-3 for all others.
    These include the reduction, because the checkpoint has a trained one. If yours is new, give it its
    own rate with ``pool_lr``.

    Frozen parameters and empty groups are left out.

    Args:
        model: the network.
        lr: rate of the classifier.
        backbone_lr: rate of the backbone.
        pool_lr: rate of the pooling's parameters (the reduction); None for the rate of the backbone.
        decay_norms: whether weight decay is for norm layers and biases too, as in the paper. If not,
            they are in groups of their own with ``weight_decay=0``, together with what the backbone
            names in ``no_weight_decay()``.

    Returns:
        Dictionaries with ``params``, ``lr`` and ``name``.

    >>> import torch
    >>> from rootpool.models import create_model
    >>> groups = parameter_groups(create_model("patchnet"))
    >>> optimizer = torch.optim.SGD(groups, momentum=0.9, weight_decay=1e-4)
    >>> [(group["name"], group["lr"]) for group in optimizer.param_groups]
    [('backbone', 0.0012), ('classifier', 0.006)]
    """
    pool_lr = backbone_lr if pool_lr is None else pool_lr
    groups: list[dict[str, Any]] = [
        {"name": "backbone", "params": model.backbone.parameters(), "lr": backbone_lr},
        {"name": "pool", "params": model.pool.parameters(), "lr": pool_lr},
        {"name": "classifier", "params": model.classifier.parameters(), "lr": lr},
    ]
    spared = set() if decay_norms else _spared(model)
    for group in list(groups):
        learning = [p for p in group["params"] if p.requires_grad]
        group["params"] = [p for p in learning if p not in spared]
        rest = [p for p in learning if p in spared]
        more = {"name": f"{group['name']}, no decay", "params": rest, "weight_decay": 0.0}
        groups.append({**group, **more})
    return [group for group in groups if group["params"]]


def _spared(model: PooledClassifier) -> set[nn.Parameter]:
    """Parameters that weight decay does harm to: scales, shifts and what the backbone names."""
    named = model.no_weight_decay()
    return {p for name, p in model.named_parameters() if p.dim() <= 1 or name in named}
