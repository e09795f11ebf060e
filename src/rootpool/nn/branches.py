"""Poolings of several feature maps, concatenated for one classifier."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from .method import Method
from .replacing import covariance_pools, set_method
from .scaling import Scaling


@dataclass(frozen=True)
class Branch:
    """A stage of a network and its pooling, as a value; a list of them is a pool of ``create_model``.

    Args:
        stage: as in :class:`rootpool.models.Stages`: the name of a module, ``"last"`` or ``"average"``.
        pool: a name in ``METHODS``, a method with its parameters, or ``"gap"``.
        reduction: channels after a 1x1 convolution with batch norm and ReLU; 0 for no reduction, None for 256
            if the stage is wider (not for gap).
        scaling: of its vector, such as ``Length(4.0)``: its weight among the branches.

    >>> Branch("layer3", "isqrt-cov", reduction=64)
    Branch(stage='layer3', pool='isqrt-cov', reduction=64, scaling=None)
    """

    stage: str
    pool: str | Method = "exact"
    reduction: int | None = None
    scaling: Scaling | None = None


class BranchPool(nn.Module):
    r"""Pool several feature maps, one pooling per branch, and concatenate the results.

    .. math:: v = [\, p_1(X_{t_1}), \dots, p_k(X_{t_k}) \,]

    Reduction, method and scaling belong to each pooling. A stage may feed several branches. The
    method of all covariance poolings can be changed at once on a live module.

    Args:
        branches: pairs of a stage and its pooling. The stage is a key of the maps: the name of a
            stage for a backbone that returns a dictionary, an index for a list. The pooling is any
            module with ``out_features`` that maps ``(B, C, H, W)`` to one vector, or matrix, per sample.

    Shape:
        a dictionary or sequence of maps ``(B, C_t, H_t, W_t)`` to ``(B, out_features)``. A second argument is
        weights of the positions, as in :func:`covariance`, of all maps but those with a single position.

    >>> from rootpool.nn import AveragePool, CovariancePool, Length
    >>> pool = BranchPool(
    ...     [
    ...         (
    ...             "middle",
    ...             CovariancePool(112, reduction=64, output="isometric", scaling=Length(4)),
    ...         ),
    ...         ("last", AveragePool(1280, scaling=Length(1.5, power=0.5))),
    ...     ]
    ... )
    >>> pool.out_features
    3360
    >>> maps = {"middle": torch.randn(2, 112, 10, 10), "last": torch.randn(2, 1280, 5, 5)}
    >>> pool(maps).shape
    torch.Size([2, 3360])
    """

    def __init__(self, branches: Iterable[tuple[str | int, nn.Module]]) -> None:
        super().__init__()
        branches = list(branches)
        if not branches:
            raise ValueError("BranchPool needs at least one (stage, pooling) branch, got none")
        for stage, pool in branches:
            if not isinstance(getattr(pool, "out_features", None), int):
                raise TypeError(
                    f"the pooling of stage {stage!r} must be a module with out_features, such as "
                    f"CovariancePool, got {type(pool).__name__}"
                )
        self.stages = tuple(stage for stage, _ in branches)
        self.pools = nn.ModuleList(pool for _, pool in branches)

    @property
    def method(self) -> Method:
        """The method of all covariance poolings; assign a name or a value to change it."""
        methods = {pool.method for pool in covariance_pools(self).values()}
        if len(methods) != 1:
            raise ValueError(
                f"the branches have {len(methods)} different methods; look at pools[i].method"
            )
        return methods.pop()

    @method.setter
    def method(self, method: str | Method) -> None:
        set_method(self, method)

    @property
    def out_features(self) -> int:
        """Number of output features per sample: the sum over the branches."""
        return sum(cast(int, pool.out_features) for pool in self.pools)

    def forward(
        self, maps: Mapping[str, Tensor] | Sequence[Tensor], weights: Tensor | None = None
    ) -> Tensor:
        vectors = []
        for stage, pool in zip(self.stages, self.pools, strict=True):
            try:
                features = maps[stage]  # type: ignore[index]
            except (KeyError, IndexError, TypeError):
                raise ValueError(
                    f"BranchPool needs the feature map of stage {stage!r}, got {_describe(maps)}; "
                    "let the backbone return that stage"
                ) from None
            weighs = weights is not None and features.shape[2:].numel() > 1
            vectors.append((pool(features, weights) if weighs else pool(features)).flatten(1))
        return torch.cat(vectors, 1)

    def extra_repr(self) -> str:
        return f"stages={self.stages}, out_features={self.out_features}"


def _describe(maps: object) -> str:
    if isinstance(maps, Mapping):
        return f"a dictionary of {', '.join(map(repr, maps))}"
    if isinstance(maps, Sequence):
        return f"a sequence of {len(maps)} maps"
    return type(maps).__name__
