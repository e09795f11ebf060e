"""A training watched step by step until it breaks: what the gradient as published does, and why."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from rootpool.nn import CovariancePool, covariance, covariance_pool, covariance_pools
from rootpool.nn.published import PublishedRoot
from rootpool.report import Record
from rootpool.train import ImageData, build, merge, recipe, resolve
from studies.engine.network import pooling

__all__ = ["pairs_below_rounding", "watch_training"]


def watch_training(
    family: str, method: str = "mpn-cov", dtype: str = "float32", *, seed: int = 0, steps: int = 100
) -> list[Record]:
    """Train as the recipe does and look at every step, until the numbers stop being finite.

    Args:
        family: whose recipe to train.
        method: the name of a run: as published, unless it says fused.
        dtype: what the pooling computes in.
        seed: of weights and order.
        steps: how many at most.

    Returns:
        One record per step: ``step``, ``loss``, ``gradient`` (norm, to the features), ``exact`` (the norm of
        the exact gradient for the same features and the same layers above, in float64), ``error`` (of the
        one against the other, relative), ``kernel`` (its largest entry), ``ties`` (share of the pairs
        of eigenvalues whose gap is below rounding, see `pairs_below_rounding`), ``sample_share`` (of the
        squared norm, of the sample with the largest gradient), and ``finite``.
    """
    base, trained = pooling(method)
    own = {"model": {"method": trained, "compute_dtype": dtype}, "seed": seed}
    module, data = build(resolve(merge(recipe(family, base).config, own)))
    (pool,) = covariance_pools(module.model).values()
    optimizer = module.configure_optimizers()["optimizer"]
    records: list[Record] = []
    for step, batch in zip(range(steps), _batches(data), strict=False):
        optimizer.zero_grad()
        records.append({"step": step, **_watched_step(module.model, pool, batch)})
        if not records[-1]["finite"]:
            break
        optimizer.step()
    return records


def _batches(data: ImageData) -> Iterator[tuple[Tensor, Tensor]]:
    """The batches of a training, epoch by epoch."""
    for epoch in itertools.count():
        loader = data.train_dataloader()
        loader.batches.set_epoch(epoch)
        yield from loader


def _watched_step(
    model: nn.Module, pool: CovariancePool, batch: tuple[Tensor, Tensor]
) -> dict[str, Any]:
    """Forward and backward of one batch, and what there is to see."""
    kept: dict[str, Tensor] = {}

    def keep(name: str) -> Any:
        def hook(module: nn.Module, args: object, output: Tensor) -> None:
            output.retain_grad()
            kept[name] = output

        return hook

    handles = [
        pool.reduction.register_forward_hook(keep("features")),
        pool.register_forward_hook(keep("pooled")),
    ]
    try:
        value = nn.functional.cross_entropy(model(batch[0]), batch[1])
    except ValueError:  # the features are not finite any more, and the pooling says so
        return {"loss": float("nan"), "finite": False}
    finally:
        for handle in handles:
            handle.remove()
    value.backward()
    X, upstream = kept["features"], kept["pooled"].grad
    assert X.grad is not None
    assert upstream is not None
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    by_sample = X.grad.double().flatten(1).square().sum(1)
    return {
        "loss": float(value.detach()),
        "gradient": float(by_sample.sum().sqrt()),
        **_against_exact(X, upstream),
        **_kernel(X.detach(), pool),
        "sample_share": float(by_sample.max() / by_sample.sum()),
        "finite": bool(value.isfinite()) and all(bool(g.isfinite().all()) for g in gradients),
    }


def _against_exact(X: Tensor, upstream: Tensor) -> dict[str, float]:
    """The exact gradient of the same function at the same place."""
    Y = X.detach().clone().requires_grad_()
    pooled = covariance_pool(Y)
    (exact,) = torch.autograd.grad(pooled, Y, upstream.view_as(pooled))
    assert X.grad is not None
    size = exact.double().norm()
    return {
        "exact": float(size),
        "error": float((X.grad.double() - exact.double()).norm() / size),
    }


def _kernel(X: Tensor, pool: CovariancePool) -> dict[str, float]:
    """The largest entry of the kernel, and how many pairs of eigenvalues are ties to rounding."""
    lam = torch.linalg.eigvalsh(covariance(X.to(pool.compute_dtype))).flip(-1)
    lam = lam.clamp_min(torch.finfo(lam.dtype).eps)
    found = {"ties": pairs_below_rounding(lam)}
    if isinstance(pool.method, PublishedRoot):
        found["kernel"] = float(pool.method.kernel(lam).abs().max())
    return found


def pairs_below_rounding(lam: Tensor) -> float:
    """The share of the pairs of eigenvalues ``(..., n)`` whose gap is at most a rounding of the largest.

    Eigenvalues carry an error of about eps times the largest one, so the gap of such a pair, and even its
    sign, is noise.

    >>> pairs_below_rounding(torch.tensor([1.0, 1e-3, 1e-9, 0.0]))
    0.16666666666666666
    """
    i, j = torch.triu_indices(lam.shape[-1], lam.shape[-1], 1)
    gaps = (lam[..., i] - lam[..., j]).abs()
    largest = lam.amax(-1, keepdim=True)
    return float((gaps <= torch.finfo(lam.dtype).eps * largest).double().mean())
