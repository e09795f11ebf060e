"""The network that settings ask for: backbone, poolings, first weights, what is frozen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from rootpool.models import PooledClassifier, create_model, load_checkpoint
from rootpool.nn import Branch, Length, covariance_pools, resolve_pool

from .checkpoints import checkpoint_of
from .config import SettingsError
from .settings import BranchSettings, ModelSettings

__all__ = ["make_network"]


def make_network(settings: ModelSettings, num_classes: int) -> PooledClassifier:
    """Build the network, load ``settings.weights``, and freeze what is to be frozen."""
    if num_classes < 2:
        raise SettingsError(
            f"a classifier needs two classes or more, got {num_classes}; the data must have a folder "
            "per class"
        )
    network = _create(settings, num_classes)
    if settings.weights is not None:
        load_checkpoint(checkpoint_of(Path(settings.weights)), network, num_classes=num_classes)
    if settings.freeze:
        network.freeze(settings.freeze)
    network.freeze_norm_statistics(settings.frozen_norms)
    for pool in covariance_pools(network).values():
        pool.solver_device = settings.solver_device
    if settings.channels_last:  # convolutions pass it on, whatever images come in
        network.to(memory_format=torch.channels_last)
    return network


def _create(settings: ModelSettings, num_classes: int) -> PooledClassifier:
    """Options that the backbone does not have, or that are settings of their own, are mistakes."""
    whole = _branch(settings, BranchSettings("last"))
    dtype = settings.compute_dtype
    decided: dict[str, Any] = {
        "pool": whole.pool,
        "num_classes": num_classes,
        "reduction": whole.reduction,
        "scaling": whole.scaling,
        "compute_dtype": None if dtype is None else getattr(torch, dtype),
        "channel_dropout": settings.drop,
        "drop_rate": settings.drop_rate,
    }
    if settings.branches is not None:
        pools = [_branch(settings, branch) for branch in settings.branches]
        decided |= {"pool": pools, "reduction": None, "scaling": None}
    options = settings.backbone_options or {}
    twice = sorted({*decided, "name"} & options.keys())
    if twice:
        raise SettingsError(
            f"model.backbone_options has {', '.join(twice)}, which the other settings of the model and the "
            "data decide; see model.method, reduction, length, compute_dtype, drop and drop_rate"
        )
    try:
        return create_model(settings.backbone, **decided, **options)
    except (TypeError, ValueError) as error:
        if not options:
            raise
        raise SettingsError(
            f"model.backbone_options {options} do not suit {settings.backbone}: {error}. For another "
            "backbone than that of a recipe, give its own, or model.backbone_options=null, and its own "
            "model.freeze"
        ) from error


def _branch(settings: ModelSettings, branch: BranchSettings) -> Branch:
    """The pooling of a stage; what the branch leaves out comes from the model."""
    if branch.method is None:
        pool = resolve_pool(settings.method, **(settings.method_options or {}))
    else:
        pool = resolve_pool(branch.method)
    reduction = settings.reduction if branch.reduction is None else branch.reduction
    length = settings.length if branch.length is None else branch.length
    power = settings.power if branch.power is None else branch.power
    if length is None and power != 1:
        raise SettingsError(f"model.power={power:g} needs model.length, such as 1.0")
    return Branch(branch.stage, pool, reduction, None if length is None else Length(length, power))
