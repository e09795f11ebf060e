"""How fast power iteration converges depends on the ratio of the first two eigenvalues."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rootpool.analysis import Record
from rootpool.report.plots.drawing import below, legend, logarithmic
from rootpool.report.plots.palette import INK

from ..result import Result
from .common import numbers, orthogonal
from .drawing import LOOKS, one_plot
from .statement import Finding, Statement

__all__ = ["STATEMENT", "power_iteration_rate"]


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


def draw(result: Result, width: float) -> Figure:
    figure, axes = one_plot(width)
    handles = {}
    for ratio, look in zip(dict.fromkeys(r["ratio"] for r in result.records), LOOKS, strict=False):
        error = numbers(result.records, "error", ratio=ratio)
        (line,) = axes.plot(error, color=look.colour, marker=look.marker, markevery=20)
        axes.plot(numbers(result.records, "predicted", ratio=ratio), ":", color=look.colour)
        handles[f"λ₂/λ₁ = {ratio:g}"] = line
    handles["(λ₂/λ₁) to the power k"] = Line2D([], [], color=INK.light, linestyle=":")
    axes.set_ylim(1e-16, 30)
    logarithmic(axes, "y")
    axes.set_ylabel("distance, logarithmic")
    below(figure, "iteration k; distance to the leading eigenvector")
    legend(figure, handles, width)
    return figure


STATEMENT = Statement(
    "power-iteration-rate",
    title="Power iteration is slow when λ₂/λ₁ is close to one",
    text=(
        "Power iteration multiplies a vector by the matrix again and again, and scales it to length "
        "one. Each step multiplies the part along an eigenvector by its eigenvalue. The part along the "
        "leading eigenvector grows most, and the error shrinks by the factor λ₂/λ₁ per step. The "
        "covariances of a network have eigenvalues that are close to each other. If the first two are "
        "equal, there is no leading eigenvector to converge to.",
    ),
    claim="Each step of power iteration shrinks the error by lambda_2 / lambda_1, so it does not "
    "converge when the first two eigenvalues are equal.",
    caption="Distance to the leading eigenvector (solid), and the rate that the ratio predicts (dotted).",
    compute=power_iteration_rate,
    draw=draw,
)
