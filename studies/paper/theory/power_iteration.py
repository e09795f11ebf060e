"""Power iteration: how fast it converges, and that its gradient is a Taylor polynomial of the kernel."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from rootpool.linalg import PowerIteration, Taylor
from rootpool.report import Record

from .statement import Checked, line_plot, normal, numbers, orthogonal, relative_error, statement

__all__ = ["is_taylor", "power_iteration_is_taylor", "power_iteration_rate", "rate"]

RATIOS = (0.5, 0.8, 0.9, 0.99, 1.0)


def power_iteration_rate(ratios: Sequence[float] = RATIOS, iterations: int = 100) -> Checked:
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
    return Checked(
        records,
        all(abs(rate - ratio) < 0.01 for ratio, rate in rates.items()) and stuck > 0.5,
        f"Each step multiplies the error by {measured}. With equal eigenvalues it ends at {stuck:.2f}.",
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


def power_iteration_is_taylor(iterations: Sequence[int] = (1, 5, 20, 100)) -> Checked:
    """Gradients through K steps of power iteration, by autograd, compared with the series."""
    spectrum = torch.tensor([4.0, 3.9, 2.0, 1.0, 0.5, 0.1], dtype=torch.float64)
    records: list[Record] = []
    for which in range(3):
        for K in iterations:
            rules = (rule(spectrum.flip(0)) for rule in (PowerIteration(K), Taylor(K - 1)))
            own = {"eigenvector": which + 1, "iterations": K, "same_rule": torch.equal(*rules)}
            records.append({**own, "difference": _difference(spectrum, which, K)})
    worst = max(numbers(records, "difference"))
    return Checked(
        records,
        worst < 1e-12 and all(r["same_rule"] for r in records),
        f"The gradients of the first three eigenvectors differ from the series by at most {worst:.0e}, "
        f"for {iterations[0]} to {iterations[-1]} steps.",
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


rate = statement(
    power_iteration_rate,
    line_plot(
        "iteration",
        {
            **{f"λ₂/λ₁ = {ratio:g}": ("error", {"ratio": ratio}) for ratio in RATIOS},
            "0.9 to the power k": ("predicted", {"ratio": 0.9}),
        },
        ("iteration k; distance to the leading eigenvector", "distance, logarithmic"),
        logs="y",
    ),
)
is_taylor = statement(power_iteration_is_taylor)
