"""Find the covariance poolings of a model, and change their method while it lives."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch import nn

from .method import Method
from .pooling import CovariancePool
from .registry import resolve_method

__all__ = ["covariance_pools", "learned_parameters", "learned_values", "set_method", "using_method"]


def covariance_pools(model: nn.Module) -> dict[str, CovariancePool]:
    """The covariance poolings of a model by name.

    >>> covariance_pools(nn.Sequential(nn.Flatten(2), CovariancePool(8)))
    {'1': CovariancePool(...)}
    """
    return {name: m for name, m in model.named_modules() if isinstance(m, CovariancePool)}


def learned_parameters(model: nn.Module) -> list[nn.Parameter]:
    """The parameters of learned methods in a model, which want no weight decay.

    >>> learned_parameters(CovariancePool(8, "learned-power"))
    [Parameter containing:
    tensor([-0.6931], requires_grad=True)]
    """
    return [p for pool in covariance_pools(model).values() for p in pool.learned.values()]


def learned_values(model: nn.Module) -> dict[str, float]:
    """What the learned method in use has become, by name; the first one of a model with several.

    >>> learned_values(CovariancePool(8, "learned-power"))
    {'exponent': 0.5}
    >>> learned_values(CovariancePool(8))
    {}
    """
    for pool in covariance_pools(model).values():
        method = pool.method
        if method.initial_parameters():
            return method.readable(pool.learned[method.name])
    return {}


def set_method(model: nn.Module, method: str | Method) -> None:
    """Change the method of every covariance pooling of a live model; weights stay as they are."""
    new = resolve_method(method)
    for pool in _some_pools(model):
        pool.method = new


@contextlib.contextmanager
def using_method(model: nn.Module, method: str | Method) -> Iterator[None]:
    """Use another method in every covariance pooling of a model within a ``with`` statement.

    >>> pool = CovariancePool(8)
    >>> with using_method(pool, "svd-trunc"):
    ...     print(pool.method)
    SVDTrunc(bound=10000000000.0, backward='fused')
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
