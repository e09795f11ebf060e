"""``rootpool doctor --bench``: how fast and how accurate pooling is on the device at hand, as a table.

A run of each contestant is a forward and a backward, from features to their gradient. The reference is
``exact`` in float64 on the CPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor

from rootpool.linalg import sqrtm
from rootpool.machine import machine
from rootpool.nn import covariance, covariance_pool

__all__ = ["bench"]

# Channels and positions: a ResNet at 224 and at 448 pixels after a reduction, and without one.
SHAPES = ((256, 49), (256, 196), (1024, 49))
RUNS = 8  # of each contestant, of which the fastest counts


def _pool(method: str, dtype: torch.dtype | None = None) -> Callable[[Tensor], Tensor]:
    return lambda X: covariance_pool(X, method, compute_dtype=dtype, output="matrix")


CONTESTANTS: dict[str, Callable[[Tensor], Tensor]] = {
    "exact": _pool("exact"),
    "exact, float32": _pool("exact", torch.float32),
    "polar": _pool("polar"),
    "isqrt-cov, float64": _pool("isqrt-cov"),
    "isqrt-cov, float32": _pool("isqrt-cov", torch.float32),
    "eigh of the covariance, float64": lambda X: sqrtm(covariance(X.double())).to(X.dtype),
}


def bench(device: torch.device) -> list[str]:
    """The lines of a table in Markdown."""
    on_cpu = device.type == "cpu"
    batch, shapes = (2, SHAPES[:2]) if on_cpu else (128, SHAPES)  # for a minute at most
    about = machine(device)
    lines = [
        f"{about['device']}, torch {about['torch']}, {about['threads']} threads; batch {batch}, "
        f"float32 features, products of float32: {torch.get_float32_matmul_precision()}",
        "",
        "| channels, positions | contestant | ms | error, value | error, gradient |",
        "|---|---|--:|--:|--:|",
    ]
    for d, N in shapes:
        generator = torch.Generator().manual_seed(0)
        X = torch.randn(batch, d, N, generator=generator).relu()
        g = torch.randn(batch, d, d, generator=generator)
        expected = _step(_pool("exact", torch.float64), X[:2].double(), g[:2].double())
        X, g = X.to(device), g.to(device)
        for name, function in CONTESTANTS.items():
            try:
                errors = [
                    f"{float((found[:2].cpu().double() - true).norm() / true.norm()):.0e}"
                    for found, true in zip(_step(function, X, g), expected, strict=True)
                ]
                cells = [f"{1e3 * _fastest(function, X, g):.1f}", *errors]
            except (RuntimeError, TypeError) as error:  # out of memory, or no float64
                cells = [f"{type(error).__name__}: {' '.join(str(error).split())[:40]}", "", ""]
            lines.append(f"| {d}, {N} | {name} | {' | '.join(cells)} |")
    return lines


def _step(function: Callable[[Tensor], Tensor], X: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """Value and gradient."""
    X = X.detach().requires_grad_()
    Q = function(X)
    (gradient,) = torch.autograd.grad(Q, X, g)
    return Q.detach(), gradient


def _fastest(function: Callable[[Tensor], Tensor], X: Tensor, g: Tensor) -> float:
    """Seconds of the fastest run; the device is waited for."""
    times = []
    for _ in range(RUNS):
        started = time.perf_counter()
        _step(function, X, g)
        if X.device.type != "cpu":
            torch.accelerator.synchronize(X.device)
        times.append(time.perf_counter() - started)
    return min(times)
