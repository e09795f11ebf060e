"""Change a network that exists: the method of its poolings, or whitening instead of its batch norms."""

from __future__ import annotations

import contextlib
import fnmatch
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from rootpool.linalg.parameters import check_at_least

from .method import Method
from .pooling import CovariancePool
from .processes import ProcessGroup
from .registry import resolve_method
from .whitening import Whitening
from .whitening_methods import WhiteningMethod

_PLAIN = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
_FOLLOWING = ["drop", "act"]  # what timm's batch norms apply after the normalisation, in this order


def covariance_pools(model: nn.Module) -> dict[str, CovariancePool]:
    """The covariance poolings of a model by name.

    >>> covariance_pools(nn.Sequential(nn.Flatten(2), CovariancePool(8)))
    {'1': CovariancePool(...)}
    """
    return {name: m for name, m in model.named_modules() if isinstance(m, CovariancePool)}


def set_method(model: nn.Module, method: str | Method) -> None:
    """Change the method of every covariance pooling of a live model; weights stay as they are.

    >>> pool = CovariancePool(8)
    >>> set_method(pool, "svd-trunc")
    >>> pool.method
    SVDTrunc(bound=10000000000.0)
    """
    new = resolve_method(method)
    for pool in _some_pools(model):
        pool.method = new


@contextlib.contextmanager
def using_method(model: nn.Module, method: str | Method) -> Iterator[None]:
    """Use another method in every covariance pooling of a model within a ``with`` statement.

    >>> pool = CovariancePool(8)
    >>> with using_method(pool, "svd-trunc"):
    ...     print(pool.method)
    SVDTrunc(bound=10000000000.0)
    >>> pool.method
    Exact()
    """
    pools = _some_pools(model)
    before = [pool.method for pool in pools]
    set_method(model, method)
    try:
        yield
    finally:
        for pool, old in zip(pools, before, strict=True):
            pool.method = old


def _some_pools(model: nn.Module) -> list[CovariancePool]:
    pools = list(covariance_pools(model).values())
    if not pools:
        raise ValueError(
            f"{type(model).__name__} has no CovariancePool whose method could be changed; "
            "build it with rootpool.models.create_model, or use one in your own model"
        )
    return pools


def replace_batch_norm(
    model: nn.Module,
    group_size: int = 64,
    method: str | WhiteningMethod = "exact",
    *,
    names: str = "*",
    compute_dtype: torch.dtype | None = None,
    process_group: ProcessGroup = None,
) -> nn.Module:
    """Replace batch norms by :class:`Whitening`, in place.

    Scale and shift stay the same parameters, so an optimizer keeps them. Running means and variances stay
    too, and the covariances between channels begin with zero. So in evaluation the network computes what it
    did before, up to rounding (except with ``"newton"``, which is an approximation), until training brings
    covariances. Batch norms of timm with an activation in them become a sequence of both.

    Args:
        model: the network. ``model.bn1`` and such are other modules afterwards.
        group_size: the most channels that are whitened together; a layer has as few groups of equal size as
            that allows. DBN uses 16, IterNorm 64.
        method: ``"exact"``, ``"newton"``, ``"cholesky"`` or a value, as in :class:`Whitening`.
        names: a pattern of the names in ``model.named_modules()``, such as ``"layer1.*"``. Published
            networks whiten a few layers only, often the first.
        compute_dtype: as in :class:`Whitening`.
        process_group: to share statistics with; None for a ``SyncBatchNorm``'s own, or the default one.

    Returns:
        The network; a new layer if ``model`` itself is a batch norm.

    >>> model = nn.Sequential(nn.Conv2d(3, 96, 3), nn.BatchNorm2d(96), nn.ReLU())
    >>> replace_batch_norm(model, method="cholesky")[1].groups
    2
    """
    found = [
        (name, module)
        for name, module in model.named_modules(remove_duplicate=False)
        if isinstance(module, _BatchNorm) and fnmatch.fnmatchcase(name, names)
    ]
    if not found:
        raise ValueError(
            f"{type(model).__name__} has no batch norm with a name like {names!r}; look at "
            "model.named_modules()"
        )
    layers = {
        norm: _whitening(
            norm, name, group_size, process_group, method=method, compute_dtype=compute_dtype
        )
        for name, norm in found
    }
    for name, norm in found:
        if not name:
            return layers[norm]
        model.set_submodule(name, layers[norm])
    return model


def _whitening(
    norm: _BatchNorm, name: str, group_size: int, process_group: ProcessGroup, **options: Any
) -> nn.Module:
    following = dict(norm.named_children())
    if type(norm) not in _PLAIN and list(following) != _FOLLOWING:
        raise TypeError(
            f"{name} is a {type(norm).__name__}, a batch norm of another kind, which may compute something "
            "else as well; leave it out with names=..."
        )
    if norm.running_mean is None or norm.running_var is None:
        raise ValueError(
            f"{name} has no running statistics, which Whitening needs in evaluation; make it with "
            "track_running_stats=True, or leave it out with names=..."
        )
    layer = Whitening(
        norm.num_features,
        norm.eps,
        norm.momentum,
        groups=_groups(norm.num_features, group_size),
        affine=norm.affine,
        process_group=process_group or getattr(norm, "process_group", None),
        **options,
    ).to(norm.running_mean)
    layer.weight, layer.bias = norm.weight, norm.bias
    layer.running_mean.copy_(norm.running_mean)
    variances = norm.running_var.view(layer.groups, -1)
    layer.running_covariance.copy_(torch.diag_embed(variances).view_as(layer.running_covariance))
    if norm.num_batches_tracked is not None:
        layer.num_batches_tracked.copy_(norm.num_batches_tracked)
    layer.train(norm.training)
    return nn.Sequential(layer, *following.values()) if following else layer


def _groups(channels: int, group_size: int) -> int:
    """The smallest number of equal groups of at most that size."""
    check_at_least("group_size", group_size, 1)
    return next(
        g for g in range(1, channels + 1) if channels % g == 0 and channels // g <= group_size
    )
