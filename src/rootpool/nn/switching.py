"""Find the covariance poolings of a model, and change their method while it lives."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch import nn

from .method import Method
from .pooling import CovariancePool
from .registry import resolve_method

__all__ = ["covariance_pools", "set_method", "using_method"]


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
