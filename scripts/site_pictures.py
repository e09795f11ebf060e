"""Draw the pictures of the documentation that no study draws.

python scripts/site_pictures.py           writes docs/images/gradient-*.svg and docs/images/speed.svg
"""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rootpool.files import write_atomically
from rootpool.linalg import FUNCTIONS, Pade, Power, Taylor, Truncated, sqrtm
from rootpool.report.plots import speed_bars
from rootpool.report.plots.drawing import WIDE, below, logarithmic, standalone_svg, styled
from rootpool.report.plots.palette import FREE, MUTED, STYLES

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
TABLES = runpy.run_path(str(ROOT / "scripts" / "site_tables.py"))
SHAPE = "ResNet, 224 px (128, 256, 49)"
OURS = STYLES["exact"].colour
KERNEL = STYLES["svd-pade"].colour  # the method that uses it
METHODS = {"rootpool exact": "exact", "Newton-Schulz, float32": "isqrt-cov"}
METHODS |= {"paper's SVD-Pade": "svd-pade"}
PHONE = 5.35  # inches: all of the picture fits on a phone, where its text has nine pixels
GAPS = [10 ** (-k / 4) for k in range(2, 60)]


def _axes(height: float = 3.0, width: float = WIDE) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


@styled
def coefficients() -> Figure:
    """The three numbers that can stand between two eigenvectors, by the ratio of the eigenvalues."""
    figure, axes = _axes(2.8)
    x = 1 - torch.logspace(0, -4, 400, dtype=torch.float64)
    s = x.sqrt()
    for values, text, place, colour, line in (
        (1 / (1 - x), "of the eigenvectors: 1 / (λᵢ − λⱼ)", (0.68, 3.2), KERNEL, "-"),
        (1 / (1 + s), "of the root: 1 / (sᵢ + sⱼ)", (0.68, 0.8), OURS, "-"),
        (s / (1 + s), "of the root, to the features: sⱼ / (sᵢ + sⱼ)", (0.68, 0.06), OURS, "--"),
    ):
        axes.plot(x, values, line, color=colour)
        axes.text(*place, text, color=colour, ha="right")
    axes.set(ylim=(0, 4), xlim=(0, 1.01))
    axes.set_title("coefficients, for λᵢ = 1", loc="left")
    below(figure, "λⱼ, the other eigenvalue")
    return figure


def _pairs(gap: float) -> torch.Tensor:
    """Pairs of eigenvalues ``gap`` apart, several, because a rounding can be lucky."""
    low = torch.linspace(0.61, 0.93, 9, dtype=torch.float64)
    return torch.stack([low, low + gap], -1)


def _worst_error(found: torch.Tensor, exact: Callable[..., Any], pairs: torch.Tensor) -> float:
    """The largest relative error of divided differences of some pairs, against 50 digits."""
    worst = 1e-17
    with mpmath.workdps(50):
        for value, (a, b) in zip(found.tolist(), pairs.tolist(), strict=True):
            low, high = mpmath.mpf(a), mpmath.mpf(b)
            true = (exact(high) - exact(low)) / (high - low)
            worst = max(worst, abs(float((value - true) / true)))
    return worst


def _closing(axes: Axes, low: float, high: float) -> None:
    """Logarithmic both ways, the gap closing to the right."""
    axes.set(xlim=(1e-15, 1), ylim=(low, high))
    logarithmic(axes, "x")
    logarithmic(axes, "y")
    axes.invert_xaxis()
    axes.set_ylabel("relative error, logarithmic")


@styled
def cancellation() -> Figure:
    """Digits lost by the quotient as the eigenvalues approach, and by the forms without a difference."""
    figure, axes = _axes()
    functions = {
        "square root": (FUNCTIONS["sqrt"], mpmath.sqrt, 3e-4),
        "logarithm": (FUNCTIONS["log"], mpmath.log, 1e-9),
        "power 0.3": (Power(0.3), lambda x: x ** mpmath.mpf(0.3), 3e-2),
    }
    for (name, (function, exact, height)), look in zip(functions.items(), FREE, strict=False):
        quotient, ours = [], []
        for gap in GAPS:
            pairs = _pairs(gap)
            f = function.values(pairs)
            naive = (f[:, 1] - f[:, 0]) / (pairs[:, 1] - pairs[:, 0])
            quotient.append(_worst_error(naive, exact, pairs))
            ours.append(_worst_error(function.divided_differences(pairs)[:, 0, 1], exact, pairs))
        axes.plot(GAPS, quotient, color=look.colour)
        axes.plot(GAPS, ours, look.marker, color=look.colour, markersize=3)
        axes.text(1e-11, height, f"{name}: quotient", color=look.colour, ha="right")
    axes.text(1e-11, 2e-14, "the three forms of the table", color=MUTED, ha="right")
    _closing(axes, 1e-17, 10)
    below(figure, "gap between two eigenvalues near one, logarithmic")
    return figure


@styled
def near_ties() -> Figure:
    """How far the coefficient of the root is from right, by rule, as the gap closes."""
    figure, axes = _axes()
    rules = {"svd-taylor": Taylor(), "svd-trunc": Truncated(), "svd-pade": Pade(), "exact": None}
    places = {"svd-taylor": (1e-6, 1e-2), "svd-trunc": (1e-12, 1e-2), "svd-pade": (1e-6, 1e-7)}
    for name, rule in rules.items():
        errors = []
        for gap in GAPS:
            pairs = _pairs(gap)
            s = pairs.sqrt()
            if rule is None:
                fused = FUNCTIONS["sqrt"].divided_differences(pairs)[:, 0, 1]
            else:
                fused = rule(pairs)[:, 1, 0] * (s[:, 1] - s[:, 0])
            errors.append(_worst_error(fused, mpmath.sqrt, pairs))
        colour, marker, _ = STYLES[name]
        axes.plot(GAPS, errors, color=colour, marker=marker, markevery=6)
        axes.text(*places.get(name, (1e-6, 3e-15)), name, color=colour, ha="right")
    _closing(axes, 1e-17, 10)
    below(figure, "gap between two eigenvalues near one, logarithmic")
    return figure


@styled
def feature_gradient() -> Figure:
    """The matrix H of a thin feature map: every coefficient between 0 and 1."""
    torch.manual_seed(0)
    X = torch.randn(64, 16, dtype=torch.float64) * torch.logspace(0, -3, 16)
    s = torch.linalg.svdvals(X - X.mean(1, keepdim=True))[:15]
    H = s / (s.unsqueeze(-1) + s)
    figure = Figure(figsize=(WIDE, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(range(1, 16), s, "o-", color=OURS)
    logarithmic(left, "y")
    left.set_xticks([1, 5, 10, 15])
    left.set_title("singular values s", loc="left")
    left.set_xlabel("j")
    image = right.imshow(H.numpy(), cmap="viridis", vmin=0, vmax=1, extent=(0.5, 15.5, 15.5, 0.5))
    right.set_title("Hᵢⱼ = sⱼ / (sᵢ + sⱼ)", loc="left")
    right.set(xlabel="j", ylabel="i")
    right.set_xticks([1, 5, 10, 15])
    right.set_yticks([1, 5, 10, 15])
    right.grid(False)
    bar = figure.colorbar(image, ax=right)
    bar.outline.set_edgecolor(MUTED)
    return figure


def root_gradient(A: torch.Tensor, G: torch.Tensor) -> torch.Tensor:
    """The gradient of a matrix root in 50 digits, by the theorem of Daleckii and Krein."""
    with mpmath.workdps(50):
        lam, U = mpmath.eigsy(mpmath.matrix(A.tolist()))
        inner = U.T * mpmath.matrix(G.tolist()) * U
        for i in range(len(lam)):
            for j in range(len(lam)):
                inner[i, j] /= mpmath.sqrt(lam[i]) + mpmath.sqrt(lam[j])
        return torch.tensor((U * inner * U.T).tolist(), dtype=torch.float64)


def _by_eigh(A: torch.Tensor) -> torch.Tensor:
    lam, U = torch.linalg.eigh(A)
    return (U * lam.sqrt()) @ U.mT


@styled
def gradient_error() -> Figure:
    """Error of the gradient of a square root as two eigenvalues meet: torch's eigh, and ours."""
    figure, axes = _axes(2.6, PHONE)
    torch.manual_seed(0)
    U = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64)).Q
    W = torch.randn(3, 3, dtype=torch.float64)
    G = W + W.mT
    lines = {"torch.linalg.eigh and autograd": (_by_eigh, "svd-pade"), "rootpool": (sqrtm, "exact")}
    for name, (root, look) in lines.items():
        errors = []
        for gap in GAPS:
            A = (U * torch.tensor([1.0, 1.0 + gap, 2.0], dtype=torch.float64)) @ U.mT
            A = ((A + A.mT) / 2).requires_grad_()
            (found,) = torch.autograd.grad((root(A) * G).sum(), A)
            true = root_gradient(A, G)
            errors.append(max(1e-17, float((found - true).norm() / true.norm())))
        axes.plot(GAPS, errors, color=STYLES[look].colour)
        place = (1e-8, 1e-4 if root is _by_eigh else 1e-14)
        axes.annotate(name, place, ha="right", color=STYLES[look].colour)
    _closing(axes, 1e-17, 10)
    below(
        figure, "gap between two eigenvalues, logarithmic; at a gap of 0, torch's gradient is NaN"
    )
    return figure


def speed() -> Figure:
    """Time per image of pooling, of ours and of others, at the size of a ResNet."""
    names = {name: name for name in TABLES["CONTESTANTS"]}
    header, *rows = TABLES["columns"](TABLES["POOLING"], names)
    (row,) = (dict(zip(header, row, strict=True)) for row in rows if row[0] == SHAPE)
    del row["shape (B, d, N)"]
    exact = float(row.pop("exact, per image").removesuffix(" ms"))
    times = {"rootpool exact": exact} | {name: exact * float(k) for name, k in row.items()}
    bars: list[dict[str, Any]] = [{"label": k, "milliseconds": v} for k, v in times.items()]
    for bar in bars:
        if bar["label"] in METHODS:
            bar["method"] = METHODS[bar["label"]]
    figure = speed_bars(bars)
    figure.set_figwidth(PHONE)
    below(figure, "milliseconds per image on two cores of a CPU, logarithmic")
    return figure


PICTURES = {
    "gradient-error": gradient_error,
    "speed": speed,
    "gradient-coefficients": coefficients,
    "gradient-cancellation": cancellation,
    "gradient-near-ties": near_ties,
    "gradient-features": feature_gradient,
}


def main() -> None:
    for name, draw in PICTURES.items():
        write_atomically(IMAGES / f"{name}.svg", standalone_svg(draw()))


if __name__ == "__main__":
    main()
