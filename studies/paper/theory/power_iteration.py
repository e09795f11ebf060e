"""Power iteration: how fast it converges, and that its gradient is a Taylor polynomial of the kernel."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rootpool.linalg import PowerIteration, Taylor
from rootpool.report.plots.drawing import below, legend, logarithmic
from rootpool.report.plots.palette import INK
from rootpool.report.records import Record

from ..result import Result
from .statement import LOOKS, Finding, normal, numbers, one_plot, orthogonal, relative_error

__all__ = [
    "draw_power_iteration_is_taylor",
    "draw_power_iteration_rate",
    "power_iteration_is_taylor",
    "power_iteration_rate",
]

EPS = 2.0**-52


def power_iteration_rate(
    ratios: Sequence[float] = (0.5, 0.8, 0.9, 0.99, 1.0), iterations: int = 100
) -> Finding:
    """Distance to the leading eigenvector by iteration, for several lambda_2 / lambda_1."""
    records: list[Record] = []
    rates = {}
    for ratio in ratios:
        errors = _errors_of_power_iteration(ratio, iterations)
        rates[ratio] = _factor_per_step(errors)
        records += [
            {"ratio": ratio, "iteration": k, "error": error, "predicted": ratio**k}
            for k, error in enumerate(errors)
        ]
    stuck = numbers(records, "error", ratio=max(ratios))[-1]
    measured = ", ".join(f"{rate:.3f} at a ratio of {ratio:g}" for ratio, rate in rates.items())
    return Finding(
        records,
        all(abs(rate - ratio) < 0.01 for ratio, rate in rates.items()) and stuck > 0.5,
        f"Each step multiplies the error by {measured}. With equal eigenvalues it ends at {stuck:.2f}.",
        {"channels": 8, "iterations": iterations},
    )


def _errors_of_power_iteration(ratio: float, iterations: int) -> list[float]:
    """Tangents of the angle to the leading eigenvector, from a start with equal parts of all eigenvectors."""
    U = orthogonal(8)
    lam = torch.tensor([1.0, *torch.linspace(ratio, 0, 7).tolist()], dtype=torch.float64)
    P, u = (U * lam) @ U.mT, U.sum(1)
    errors = []
    for _ in range(iterations + 1):
        along = U.mT @ u
        errors.append(float(along[1:].norm() / along[0].abs()))
        u = P @ u
        u = u / u.norm()
    return errors


def _factor_per_step(errors: Sequence[float]) -> float:
    """Factor of the error per step, over the later half of the steps before rounding takes over.

    The first steps mix all eigenvalues.
    """
    above = [e for e in errors if e > 1e-11]
    half = len(above) // 2
    return (above[-1] / above[half]) ** (1 / (len(above) - 1 - half))


def draw_power_iteration_rate(result: Result, width: float) -> Figure:
    """Error by iteration, measured and predicted, for each ratio."""
    figure, axes = one_plot(width)
    handles = {}
    for ratio, look in zip(dict.fromkeys(r["ratio"] for r in result.records), LOOKS, strict=False):
        error = numbers(result.records, "error", ratio=ratio)
        (line,) = axes.plot(error, color=look.colour, marker=look.marker, markevery=20)
        axes.plot(numbers(result.records, "predicted", ratio=ratio), ":", color=look.colour)
        handles[f"λ₂/λ₁ = {ratio:g}"] = line
    handles["(λ₂/λ₁) to the power k"] = Line2D([], [], color=INK, linestyle=":")
    axes.set_ylim(1e-16, 30)
    logarithmic(axes, "y")
    axes.set_ylabel("distance, logarithmic")
    below(figure, "iteration k; distance to the leading eigenvector")
    legend(figure, handles, width)
    return figure


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


def draw_power_iteration_is_taylor(result: Result, width: float) -> Figure:
    """Difference from the series by the number of iterations."""
    figure, axes = one_plot(width)
    handles = {}
    which = dict.fromkeys(r["eigenvector"] for r in result.records)
    for eigenvector, look in zip(which, LOOKS, strict=False):
        steps = numbers(result.records, "iterations", eigenvector=eigenvector)
        found = numbers(result.records, "difference", eigenvector=eigenvector)
        (line,) = axes.plot(steps, found, marker=look.marker, color=look.colour)
        handles[f"eigenvector {eigenvector}"] = line
    handles["one rounding in float64"] = axes.axhline(EPS, color=INK, linestyle=":")
    axes.set_ylim(1e-17, 1)
    logarithmic(axes, "y")
    logarithmic(axes, "x")
    axes.set_ylabel("relative difference, logarithmic")
    below(figure, "iterations, which are the terms of the series, logarithmic")
    legend(figure, handles, width)
    return figure
