"""The gradient through power iteration is a Taylor polynomial of the kernel."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from matplotlib.figure import Figure

from rootpool.analysis import Record
from rootpool.linalg import PowerIteration, Taylor
from rootpool.report.plots.drawing import below, legend, logarithmic
from rootpool.report.plots.palette import INK

from ..result import Result
from .common import normal, numbers, orthogonal, relative_error
from .drawing import LOOKS, one_plot
from .statement import Finding, Statement

__all__ = ["STATEMENT", "power_iteration_is_taylor"]

FLOAT64 = 2.0**-52


def power_iteration_is_taylor(iterations: Sequence[int] = (1, 5, 20, 100)) -> Finding:
    """Gradients through K steps of power iteration, by autograd, compared with the series."""
    spectrum = torch.tensor([4.0, 3.9, 2.0, 1.0, 0.5, 0.1], dtype=torch.float64)
    records: list[Record] = []
    for which in range(3):
        for K in iterations:
            ascending = spectrum.flip(0)
            same = torch.equal(PowerIteration(K)(ascending), Taylor(K - 1)(ascending))
            difference = _difference(spectrum, which, K)
            records.append(
                {
                    "eigenvector": which + 1,
                    "iterations": K,
                    "difference": difference,
                    "same_rule": same,
                }
            )
    worst = max(numbers(records, "difference"))
    return Finding(
        records,
        worst < 1e-12 and all(r["same_rule"] for r in records),
        f"The gradients of the first three eigenvectors differ from the series by at most {worst:.0e}, "
        f"for {iterations[0]} to {iterations[-1]} steps.",
        {"eigenvalues": ", ".join(f"{x:g}" for x in spectrum.tolist())},
    )


def _difference(spectrum: torch.Tensor, which: int, K: int) -> float:
    """Difference of autograd and series, in the directions of the later (smaller) eigenvectors."""
    n = len(spectrum)
    U, g = orthogonal(n), normal(n, seed=1)
    later = torch.arange(n) > which
    P = ((U * torch.where(torch.arange(n) < which, 0, spectrum)) @ U.mT).requires_grad_()
    u = U[:, which]
    for _ in range(K):
        u = P @ u
        u = u / u.norm()
    (gradient,) = torch.autograd.grad(u, P, g)
    ratio = spectrum[later] / spectrum[which]
    series = sum(ratio**k for k in range(K)) / spectrum[which]
    return relative_error(U[:, later].mT @ gradient @ U[:, which], series * (U[:, later].mT @ g))


def draw(result: Result, width: float) -> Figure:
    figure, axes = one_plot(width)
    handles = {}
    which = dict.fromkeys(r["eigenvector"] for r in result.records)
    for eigenvector, look in zip(which, LOOKS, strict=False):
        steps = numbers(result.records, "iterations", eigenvector=eigenvector)
        found = numbers(result.records, "difference", eigenvector=eigenvector)
        (line,) = axes.plot(steps, found, marker=look.marker, color=look.colour)
        handles[f"eigenvector {eigenvector}"] = line
    handles["one rounding in float64"] = axes.axhline(FLOAT64, color=INK.light, linestyle=":")
    axes.set_ylim(1e-17, 1)
    logarithmic(axes, "y")
    logarithmic(axes, "x")
    axes.set_ylabel("relative difference, logarithmic")
    below(figure, "iterations, which are the terms of the series, logarithmic")
    legend(figure, handles, width)
    return figure


STATEMENT = Statement(
    "power-iteration-is-taylor",
    title="The gradient of power iteration is a Taylor polynomial",
    text=(
        "Start power iteration at the exact eigenvector, and differentiate K steps of it. The result is "
        "the kernel with 1/(1 − x) replaced by the first K terms of its series, 1 + x + … + x^(K − 1), "
        "for x = λ_j / λ_i. That is the Taylor polynomial of the kernel. So these two remedies are the "
        "same, except for the number of terms that is usual for each.",
    ),
    claim="The gradient through K steps of power iteration, started at the exact eigenvector and deflated, "
    "is that of the Taylor series of the kernel with K terms.",
    caption="Relative difference between the gradient through power iteration and the series.",
    compute=power_iteration_is_taylor,
    draw=draw,
)
