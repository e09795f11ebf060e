"""Optimizers, schedules of the learning rate and mixtures of samples, all by name."""

from __future__ import annotations

import inspect
import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler, MultiStepLR
from torchvision.transforms import v2

from rootpool.suggest import unknown_name
from rootpool.train.config import SettingsError

__all__ = [
    "SCHEDULES",
    "check_ranges",
    "make_mixture",
    "make_optimizer",
    "make_schedule",
    "optimizer_names",
]

DECAY = 0.1  # of the learning rate at a milestone
FROM = 1e-2  # the share of the rate that a warm-up begins with
# What makes sense of a number, by its name among the settings of a model.
RANGES = {
    "backbone_lr": (0, math.inf),
    "cutmix": (0, math.inf),
    "drop_rate": (0, 1),
    "label_smoothing": (0, 1),
    "lr": (0, math.inf),
    "min_share": (0, 1),
    "mixup": (0, math.inf),
    "momentum": (0, 1),
    "pool_lr": (0, math.inf),
    "warmup_epochs": (0, math.inf),
    "weight_decay": (0, math.inf),
}
# They want a closure, sparse gradients or matrices alone.
_UNUSABLE = {"lbfgs", "sparseadam", "muon", "optimizer"}


def check_ranges(options: Mapping[str, Any]) -> None:
    """Raise for a number that torch would refuse in the middle of a step, or would take without a word."""
    for name, (low, high) in RANGES.items():
        value = options[name]
        if value is not None and not (low <= value <= high and math.isfinite(value)):
            wanted = "must be 0 or more" if high == math.inf else f"must be from {low} to {high}"
            raise SettingsError(f"model.{name} {wanted}, got {value:g}")
    if any(epoch < 1 for epoch in options["milestones"] or ()):
        raise SettingsError(
            f"model.milestones must be epochs from 1 on, got {options['milestones']}"
        )


def _of_torch() -> dict[str, type[Optimizer]]:
    classes = {name.lower(): kind for name, kind in vars(torch.optim).items() if _is_class(kind)}
    return {name: kind for name, kind in classes.items() if name not in _UNUSABLE}


def _is_class(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Optimizer)


def optimizer_names() -> list[str]:
    """Names that ``model.optimizer`` takes: torch's in lower case, and timm's.

    >>> {"sgd", "adamw", "lamb"} <= set(optimizer_names())
    True
    """
    from timm.optim import list_optimizers  # type: ignore[attr-defined, unused-ignore]

    return sorted({*_of_torch(), *map(str, list_optimizers())})


def make_optimizer(
    name: str,
    groups: Sequence[dict[str, Any]],
    *,
    lr: float,
    momentum: float,
    weight_decay: float,
    options: Mapping[str, Any] | None = None,
) -> Optimizer:
    """An optimizer of torch or, for other names, of timm.

    Args:
        name: one of `optimizer_names`. ``sgd`` is torch's: with momentum and without Nesterov's.
        groups: parameters.
        lr: learning rate.
        momentum: for those that have one by that name.
        weight_decay: of all groups that have none of their own.
        options: of the optimizer, such as ``{"betas": [0.9, 0.98]}``.
    """
    name = name.lower()  # as torch writes them: AdamW
    if name not in optimizer_names():
        raise SettingsError(unknown_name("model.optimizer", name, optimizer_names()))
    given = {"lr": lr, "weight_decay": weight_decay, **(options or {})}
    kind = _of_torch().get(name)
    try:
        if kind is None:
            from timm.optim import (  # type: ignore[attr-defined, unused-ignore]
                create_optimizer_v2,
            )

            return create_optimizer_v2(groups, opt=name, momentum=momentum, **given)
        if "momentum" in inspect.signature(kind).parameters:
            given.setdefault("momentum", momentum)
        return kind(groups, **given)
    except (TypeError, ValueError) as error:
        raise SettingsError(
            f"the optimizer {name} does not take {given}: {error}; see model.optimizer_options"
        ) from error


# --------------------------------------------------------------------------------------------------
# The learning rate, as its share of the initial one. Where it is a function of the step alone, a resumed
# run has the same rates to the bit.


def _cosine(epoch: float, epochs: float, milestones: Sequence[int]) -> float:
    return (1 + math.cos(math.pi * min(epoch / epochs, 1))) / 2


def _linear(epoch: float, epochs: float, milestones: Sequence[int]) -> float:
    return max(1 - epoch / epochs, 0)


def _steps(epoch: float, epochs: float, milestones: Sequence[int]) -> float:
    return DECAY ** bisect_right(milestones, epoch)


SCHEDULES: dict[str, Callable[[float, float, Sequence[int]], float]] = {
    "steps": _steps,
    "cosine": _cosine,
    "linear": _linear,
}


def make_schedule(
    name: str,
    optimizer: Optimizer,
    *,
    milestones: Sequence[int],
    warmup_epochs: float,
    min_share: float,
    epochs: float,
    steps_per_epoch: float,
) -> tuple[LRScheduler, str]:
    """A schedule, and whether it goes by ``epoch`` or by ``step``.

    Args:
        name: one of ``SCHEDULES``.
        optimizer: whose rates it changes.
        milestones: epochs at whose beginning ``steps`` divides the rate by ten.
        warmup_epochs: of a linear rise from a hundredth of the rate; may be a fraction.
        min_share: the share of the rate that ``cosine`` and ``linear`` end with.
        epochs: of the whole training.
        steps_per_epoch: steps of the optimizer in an epoch.
    """
    if name == "steps" and not warmup_epochs:
        return MultiStepLR(optimizer, list(milestones), gamma=DECAY), "epoch"
    shape = SCHEDULES[name]
    floor = 0.0 if name == "steps" else min_share

    def share(step: int) -> float:
        epoch = step / steps_per_epoch
        if epoch < warmup_epochs:
            return FROM + (1 - FROM) * epoch / warmup_epochs
        if name == "steps":
            return shape(epoch, epochs, milestones)
        left = max(epochs - warmup_epochs, 1e-9)
        return floor + (1 - floor) * shape(epoch - warmup_epochs, left, milestones)

    return LambdaLR(optimizer, share), "step"


# --------------------------------------------------------------------------------------------------


def make_mixture(
    mixup: float, cutmix: float, num_classes: int
) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] | None:
    """MixUp or CutMix of a batch, or either in turn at random; None for neither.

    Args:
        mixup: alpha of the Beta distribution; 0 for none.
        cutmix: the same for CutMix.
        num_classes: labels become shares of so many classes.
    """
    kinds = {v2.MixUp: mixup, v2.CutMix: cutmix}
    chosen = [kind(alpha=alpha, num_classes=num_classes) for kind, alpha in kinds.items() if alpha]
    if not chosen:
        return None
    return chosen[0] if len(chosen) == 1 else v2.RandomChoice(chosen)
