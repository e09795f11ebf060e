r"""What a method does to a spectrum.

A method that acts on eigenvalues is a filter: in units of the trace it maps :math:`\lambda / \tau` to
:math:`q / \sqrt\tau`. The square root is one such filter. Newton-Schulz after k steps is another: it follows
the root for large eigenvalues and falls below it for small ones,
:math:`q \approx (3/2)^k \lambda / \tau`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from rootpool.nn import ISqrtCov, resolve_method
from rootpool.report import Record
from studies.methods import LearnedPower

__all__ = ["CONVERGED", "EXPONENTS", "ITERATIONS", "spectral_response", "usual_filters"]

ITERATIONS = (1, 2, 3, 5, 7, 10, 15)
EXPONENTS = (0.3, 0.4, 0.6, 0.7)
CONVERGED = 100  # stands for the limit of the iteration in study.yaml


def spectral_response(
    filters: Mapping[str, Callable[[Tensor], Tensor]], eigenvalues: Tensor
) -> list[Record]:
    """What methods make of the eigenvalues of one covariance, in units of its trace.

    Args:
        filters: from a covariance ``(1, n, n)`` to its normalisation, by name: any method.
        eigenvalues: ``(n,)``, at least one of them positive.

    Returns:
        One record per filter and positive eigenvalue: ``run``, ``eigenvalue`` over the trace, ``value`` over
        the root of the trace, and ``share``, the value over the square root of the eigenvalue.

    >>> records = spectral_response(
    ...     {"one step": ISqrtCov(1)}, torch.tensor([3.0, 1.0], dtype=torch.float64)
    ... )
    >>> [(r["eigenvalue"], round(r["share"], 2)) for r in records]
    [(0.75, 0.97), (0.25, 0.69)]
    """
    lam = eigenvalues.detach().double()
    if lam.dim() != 1 or not bool((lam >= 0).all()) or not bool(lam.sum() > 0):
        raise ValueError(
            "eigenvalues must be a vector of numbers that are not negative, with a positive one, got "
            f"{tuple(eigenvalues.shape)} with a sum of {float(lam.sum()):g}"
        )
    lam = lam / lam.sum()
    records: list[Record] = []
    for name, method in filters.items():
        values = method(torch.diag(lam).unsqueeze(0)).detach()[0].diagonal()
        records += [
            {"run": name, "eigenvalue": float(a), "value": float(q), "share": float(q / a.sqrt())}
            for a, q in zip(lam, values, strict=True)
            if a > 0
        ]
    return records


def usual_filters() -> dict[str, Callable[[Tensor], Tensor]]:
    """The filters of the sweep: Newton-Schulz by its number of iterations, and powers."""
    newton = {f"{k} iteration{'s' * (k > 1)}": ISqrtCov(k) for k in ITERATIONS}
    powers = {f"exponent {p:g}": LearnedPower(p) for p in EXPONENTS}
    return {**newton, "square root": resolve_method("exact"), **powers}
