"""Whitening instead of the batch norms of a network."""

from __future__ import annotations

import fnmatch

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from .processes import ProcessGroup
from .whitening import Whitening
from .whitening_methods import WhiteningMethod

__all__ = ["replace_batch_norm"]

_PLAIN = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
_FOLLOWING = ["drop", "act"]  # what timm's batch norms apply after the normalisation, in this order


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
        process_group: shares its statistics; None for that of a ``SyncBatchNorm``, or the default one.

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
        norm: _whitening(norm, name, group_size, method, compute_dtype, process_group)
        for name, norm in found
    }
    for name, norm in found:
        if not name:
            return layers[norm]
        model.set_submodule(name, layers[norm])
    return model


def _whitening(
    norm: _BatchNorm,
    name: str,
    group_size: int,
    method: str | WhiteningMethod,
    compute_dtype: torch.dtype | None,
    process_group: ProcessGroup,
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
        compute_dtype,
        groups=_groups(norm.num_features, group_size),
        affine=norm.affine,
        method=method,
        process_group=process_group or getattr(norm, "process_group", None),
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
    if group_size < 1:
        raise ValueError(f"group_size must be a positive integer, got {group_size!r}")
    return next(
        g for g in range(1, channels + 1) if channels % g == 0 and channels // g <= group_size
    )
