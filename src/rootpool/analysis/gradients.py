"""The gradients of a method: their size, and the kernel behind them."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rootpool.linalg import GradientRule
from rootpool.nn import Method, covariance_pool, resolve_method
from rootpool.nn.covariance import flatten_positions
from rootpool.nn.spectral_roots import SpectralRoot

from .spectrum import covariance_eigenvalues

__all__ = ["gradient_statistics", "kernel_rule", "kernel_statistics"]


def kernel_statistics(
    features: Tensor, method: str | Method, *, compute_dtype: torch.dtype = torch.float64
) -> dict[str, float]:
    r"""How difficult the covariances of some features are for the gradient of a method.

    Returns:
        ``clamped``, the share of eigenvalues at or below the eps of ``compute_dtype``, which the
        paper's methods raise to eps; ``tied``, the share that then equals another one (all that are
        clamped, if there are two or more); ``largest_kernel``, the largest :math:`|K_{ij}|` that the
        rule of the method has for these spectra, NaN for a method without such a kernel. All are NaN
        for features that are not finite.

    >>> X = torch.tensor([[[1.0, -1, 0, 0], [0, 0, 2, -2], [0, 0, 0, 0], [0, 0, 0, 0]]])
    >>> kernel_statistics(X, "svd-trunc")
    {'clamped': 0.5, 'tied': 0.5, 'largest_kernel': 10000000000.0}
    """
    method = resolve_method(method)
    X = flatten_positions(features, "kernel_statistics")
    if X.numel() == 0 or not X.isfinite().all():
        return dict.fromkeys(("clamped", "tied", "largest_kernel"), math.nan)
    lam = covariance_eigenvalues(X)
    eps = torch.finfo(compute_dtype).eps
    raised = lam.clamp_min(eps)
    equal = raised[:, 1:] == raised[:, :-1]
    tied = torch.zeros_like(lam, dtype=torch.bool)
    tied[:, 1:] |= equal
    tied[:, :-1] |= equal
    return {
        "clamped": float((lam <= eps).double().mean()),
        "tied": float(tied.double().mean()),
        "largest_kernel": _largest_kernel(method, lam, compute_dtype),
    }


def kernel_rule(method: Method) -> GradientRule | None:
    """The rule whose kernel a method uses for its gradient; None if it needs no kernel."""
    rule = getattr(method, "rule", None)
    return rule if isinstance(rule, GradientRule) else None


def _largest_kernel(method: Method, lam: Tensor, dtype: torch.dtype) -> float:
    rule = kernel_rule(method)
    if rule is None or not isinstance(method, SpectralRoot):
        return math.nan
    spectrum = lam.clamp_min(method.floor(dtype))
    if method.keep is not None:
        spectrum[:, method.keep :] = 0
    return max(float(rule(s.flip(-1)).abs().amax()) for s in spectrum)


def gradient_statistics(
    features: Tensor,
    method: str | Method,
    upstream: Tensor | None = None,
    *,
    compute_dtype: torch.dtype = torch.float64,
) -> dict[str, float]:
    """Statistics of the gradient that ``covariance_pool`` sends to its features.

    Args:
        features: ``(B, C, H, W)`` or ``(B, C, N)``, B at least 1.
        method: a name in ``METHODS``, or a method with its parameters.
        upstream: the gradient at the output, the triangles. By default normal numbers of norm one per
            map, the same at every call.
        compute_dtype: precision of the pooling.

    Returns:
        Euclidean ``norm``, ``largest`` magnitude and number of ``nonfinite`` entries of the gradient, and
        :func:`kernel_statistics`.

    >>> X = torch.randn(2, 8, 7, 7, generator=torch.Generator().manual_seed(0))
    >>> gradient_statistics(X, "exact")["nonfinite"]
    0
    """
    method = resolve_method(method)
    X = flatten_positions(features, "gradient_statistics").detach().requires_grad_()
    if X.shape[0] == 0:
        raise ValueError(f"gradient_statistics needs at least one map, got {tuple(X.shape)}")
    with torch.enable_grad():
        pooled = covariance_pool(X, method, compute_dtype=compute_dtype)
        (gradient,) = torch.autograd.grad(
            pooled, X, _unit_normal(pooled) if upstream is None else upstream
        )
    gradient = gradient.double()
    return {
        "norm": float(torch.linalg.vector_norm(gradient)),
        "largest": float(gradient.abs().amax()),
        "nonfinite": int((~gradient.isfinite()).sum()),
        **kernel_statistics(X, method, compute_dtype=compute_dtype),
    }


def _unit_normal(like: Tensor) -> Tensor:
    numbers = torch.randn(like.shape, generator=torch.Generator().manual_seed(0))
    return (numbers / torch.linalg.vector_norm(numbers, dim=-1, keepdim=True)).to(like)
