"""Time of a batch on a CPU, forward and backward, by method."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from rootpool.machine import machine
from rootpool.nn import Method, covariance_pool, method_names, resolve_method
from rootpool.report.records import Record

__all__ = ["time_methods"]


def _seconds(pool: Callable[[Tensor], Tensor], X: Tensor, upstream: Tensor) -> tuple[float, float]:
    start = time.perf_counter()
    pooled = pool(X)
    middle = time.perf_counter()
    torch.autograd.grad(pooled, X, upstream)
    return middle - start, time.perf_counter() - middle


def time_methods(
    shape: tuple[int, ...] = (128, 256, 13, 13),
    methods: Iterable[str | Method] | None = None,
    *,
    rounds: int = 3,
    compute_dtype: torch.dtype = torch.float64,
) -> list[Record]:
    """Seconds that :func:`covariance_pool` takes for a batch, forward and backward.

    The methods take turns, after one round that does not count. The best of ``rounds`` turns is reported: the
    one that other programs disturbed least. Features are normal random numbers after a ReLU.

    Args:
        shape: ``(B, C, H, W)`` or ``(B, C, N)``; by default as in the paper, AlexNet with a batch of 128.
        methods: names or methods; by default ours and the paper's.
        rounds: number of turns, at least 1.
        compute_dtype: precision of the pooling.

    Returns:
        One record per method: ``method``, ``forward``, ``backward`` and ``total`` seconds,
        ``batch``, ``shape``, ``compute_dtype`` and the :func:`~rootpool.machine.machine`.
    """
    if rounds < 1:
        raise ValueError(f"rounds must be at least 1, got {rounds}")
    chosen = {str(m): resolve_method(m) for m in methods or method_names("ours", "paper")}
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(shape, generator=generator).relu_().requires_grad_()
    best: dict[str, tuple[float, ...]] = {name: (float("inf"), float("inf")) for name in chosen}
    pools = {
        name: lambda X, m=method: covariance_pool(X, m, compute_dtype=compute_dtype)
        for name, method in chosen.items()
    }
    widths = {name: pool(X[:1].detach()).shape[1] for name, pool in pools.items()}
    upstream = {width: X.new_ones(shape[0], width) for width in widths.values()}
    for turn in range(rounds + 1):
        for name, pool in pools.items():
            taken = _seconds(pool, X, upstream[widths[name]])
            if turn:
                best[name] = tuple(map(min, best[name], taken))
    setting: Record = {
        "batch": shape[0],
        "shape": "x".join(map(str, shape)),
        "compute_dtype": str(compute_dtype).removeprefix("torch."),
        **machine(),
    }
    return [
        {"method": name, "forward": f, "backward": b, "total": f + b, **setting}
        for name, (f, b) in best.items()
    ]
