"""The optimizer, the schedule of the learning rate and mixtures of samples that settings ask for."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

from timm.optim import (  # type: ignore[attr-defined, unused-ignore]
    create_optimizer_v2,
    list_optimizers,
)
from torch import Tensor
from torch.optim import Optimizer
from torchvision.transforms import v2

from rootpool.suggest import unknown_name

from .config import SettingsError
from .settings import ModelSettings

__all__ = ["make_mixture", "make_optimizer", "rate_share"]

DECAY = 0.1  # of the learning rate at a milestone
FROM = 1e-2  # the share of the rate that a warm-up begins with


def make_optimizer(settings: ModelSettings, groups: Sequence[dict[str, Any]]) -> Optimizer:
    """An optimizer of torch or timm, by timm's name; but ``sgd`` is the paper's, without Nesterov's momentum.

    Args:
        settings: name, rate, momentum, weight decay and further options.
        groups: parameters, some with a rate or a decay of their own.
    """
    name = settings.optimizer.lower()  # torch writes AdamW
    known = [str(each) for each in list_optimizers()]
    if name not in known:
        raise SettingsError(unknown_name("model.optimizer", name, known))
    given = {
        "lr": settings.lr,
        "momentum": settings.momentum,  # timm passes it on to those that have one
        "weight_decay": settings.weight_decay,
        **(settings.optimizer_options or {}),
    }
    try:
        return create_optimizer_v2(groups, opt="momentum" if name == "sgd" else name, **given)
    except (TypeError, ValueError) as error:
        raise SettingsError(
            f"the optimizer {name} does not take {given}: {error}; see model.optimizer_options"
        ) from error


def rate_share(settings: ModelSettings, epoch: float, epochs: float) -> float:
    """The learning rate as its share of the initial one.

    It is a function of the time alone, so a resumed run has the same rates to the bit.

    Args:
        settings: schedule, milestones, epochs of warm-up and smallest share.
        epoch: the time, in epochs, with a fraction.
        epochs: of the whole training.

    >>> from rootpool.train import ModelSettings
    >>> rate_share(ModelSettings(schedule="cosine", warmup_epochs=2), 6, 10)
    0.5
    """
    warmup = settings.warmup_epochs
    if epoch < warmup:
        return FROM + (1 - FROM) * epoch / warmup
    if settings.schedule == "steps":
        return DECAY ** bisect_right(sorted(settings.milestones or []), epoch)
    done = min((epoch - warmup) / max(epochs - warmup, 1e-9), 1)
    left = 1 - done if settings.schedule == "linear" else (1 + math.cos(math.pi * done)) / 2
    return settings.min_share + (1 - settings.min_share) * left


def make_mixture(
    settings: ModelSettings, num_classes: int
) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] | None:
    """MixUp or CutMix of a batch, or either in turn at random; None for neither.

    Args:
        settings: the parameter of each.
        num_classes: labels become shares of so many classes.
    """
    kinds = {v2.MixUp: settings.mixup, v2.CutMix: settings.cutmix}
    chosen = [kind(alpha=alpha, num_classes=num_classes) for kind, alpha in kinds.items() if alpha]
    if not chosen:
        return None
    return chosen[0] if len(chosen) == 1 else v2.RandomChoice(chosen)
