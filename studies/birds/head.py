"""Heads on cached features: a head as a value, its training, its predictions.

A head is a list of branches, one pooling each, and a linear classifier on all of them. The network is frozen,
so every step works on cached features alone, and heads are compared in minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rootpool.nn import (
    AveragePool,
    BranchPool,
    CovariancePool,
    Length,
    make_pool,
    resolve_pool,
)
from rootpool.train.features import FeatureCache
from studies.methods import learned_filters

__all__ = ["Branch", "Head", "Schedule", "predict", "train_head"]

EVALUATION_BATCH = 64


@dataclass(frozen=True)
class Branch:
    """The pooling of one stage. Its vector is scaled to a length, which is its weight among the branches.

    Args:
        stage: of the cached features.
        method: a name in ``METHODS``, or ``"gap"`` for averages.
        reduction: channels after a 1x1 convolution with batch norm and ReLU; None for none.
        length: of the vector.
        power: applied to its entries before that; 0.5 for signed square roots.
        options: parameters of the method, such as ``(("iterations", 3),)``.
        drop: the dropout of channels before a covariance, ``"adaptive"`` (DropCov) or None.
    """

    stage: str
    method: str = "exact"
    reduction: int | None = None
    length: float = 4.0
    power: float = 1.0
    options: tuple[tuple[str, float], ...] = ()
    drop: str | None = None

    def pool(self, channels: int) -> CovariancePool | AveragePool:
        """The module."""
        scaling = Length(self.length, self.power)
        method = resolve_pool(self.method, **dict(self.options))
        with torch.random.fork_rng(devices=[]):
            pool = make_pool(
                channels,
                method,
                self.reduction,
                output="isometric",
                scaling=scaling,
                channel_dropout=self.drop,
            )
        # PyTorch's own initialisation, for which the rates of the schedules were chosen: its weights are
        # smaller than those of CovariancePool and learn faster.
        for layer in pool.reduction.children():
            if isinstance(layer, nn.Conv2d):
                layer.reset_parameters()
        return pool


@dataclass(frozen=True)
class Schedule:
    """Stochastic gradient descent with Nesterov momentum and rates that fall along a cosine to zero."""

    epochs: int = 12
    batch_size: int = 64
    reduction_rate: float = 0.4
    classifier_rate: float = 1.0
    momentum: float = 0.9
    weight_decay: float = 1e-4
    filter_rate: float = 0.4


@dataclass(frozen=True)
class Head:
    """Branches for one classifier, and how to train them.

    >>> head = Head((Branch("early", reduction=8), Branch("last", "gap", length=1.5, power=0.5)))
    >>> head.module({"early": 24, "last": 100}, num_classes=10)[1]
    Linear(in_features=136, out_features=10, bias=True)
    """

    branches: tuple[Branch, ...]
    schedule: Schedule = field(default_factory=Schedule)

    def module(self, channels: Mapping[str, int], num_classes: int) -> nn.Sequential:
        """Pooling and classifier for stages with these numbers of channels; all logits start at 0."""
        pool = BranchPool(
            (branch.stage, branch.pool(channels[branch.stage])) for branch in self.branches
        )
        classifier = nn.Linear(pool.out_features, num_classes)
        nn.init.zeros_(classifier.weight)
        nn.init.zeros_(classifier.bias)
        return nn.Sequential(pool, classifier)


def train_head(
    head: Head,
    cache: FeatureCache,
    labels: Tensor,
    num_classes: int,
    *,
    seed: int = 0,
    images: Tensor | None = None,
    on_epoch: Callable[[int, float], None] = lambda epoch, loss: None,
) -> nn.Sequential:
    """Train a head on cached features, on one random view of each image per epoch.

    Args:
        head: what to train.
        cache: the features.
        labels: ``(n,)``, of all images in the cache.
        num_classes: of the classifier.
        seed: for initialisation, order, views and dropout. Torch's global generator is left as it was.
        images: indices of the images to train on; None for all.
        on_epoch: called with the number of the epoch and its mean loss.

    Raises:
        FloatingPointError: the loss became NaN or infinite.
    """
    if len(labels) != len(cache):
        raise ValueError(f"expected a label for each of {len(cache)} images, got {len(labels)}")
    images = torch.arange(len(cache)) if images is None else images
    cache = cache.select(branch.stage for branch in head.branches)
    schedule = head.schedule
    order = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = head.module(cache.channels, num_classes)
        optimizer = _optimizer(module, schedule)
        batches = max(1, len(images) // schedule.batch_size)
        rates = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, schedule.epochs * batches)
        for epoch in range(schedule.epochs):
            total = 0.0
            shuffled = images[torch.randperm(len(images), generator=order)]
            for batch in shuffled.tensor_split(batches):
                views = torch.randint(cache.views, batch.shape, generator=order)
                logits = module(cache.batch(batch, views))
                loss = F.cross_entropy(logits, labels[batch])
                if not loss.isfinite():
                    raise FloatingPointError(
                        f"the loss of the head became {loss.item():g} in epoch {epoch} with seed {seed}; try "
                        f"lower rates than {schedule.reduction_rate:g} and {schedule.classifier_rate:g}"
                    )
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                rates.step()
                total += loss.item()
            on_epoch(epoch, total / batches)
    return module.eval()


def _optimizer(module: nn.Sequential, schedule: Schedule) -> torch.optim.Optimizer:
    pool, classifier = module
    filters = [p for part in learned_filters(pool) for p in part.parameters()]
    others = [p for p in pool.parameters() if not any(p is f for f in filters)]
    groups: list[dict[str, Any]] = [
        {"params": others, "lr": schedule.reduction_rate},
        {"params": filters, "lr": schedule.filter_rate, "weight_decay": 0.0},
        {"params": list(classifier.parameters()), "lr": schedule.classifier_rate},
    ]
    return torch.optim.SGD(
        [group for group in groups if group["params"]],
        momentum=schedule.momentum,
        weight_decay=schedule.weight_decay,
        nesterov=schedule.momentum > 0,
    )


def predict(module: nn.Sequential, cache: FeatureCache, images: Tensor | None = None) -> Tensor:
    """Probabilities ``(n, classes)``, the mean over the views of each image."""
    images = torch.arange(len(cache)) if images is None else images
    pool = module[0]
    assert isinstance(pool, BranchPool)
    cache = cache.select(str(stage) for stage in pool.stages)
    with torch.inference_mode():
        return torch.cat(
            [
                torch.stack(
                    [module(cache.batch(batch, view)).softmax(1) for view in range(cache.views)]
                ).mean(0)
                for batch in images.split(EVALUATION_BATCH)
            ]
        )
