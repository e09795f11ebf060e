"""What equal eigenvalues do to the gradients of the methods."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor

from rootpool.nn import covariance_pool
from rootpool.nn.published import (
    MPNCovPublished,
    PairKernel,
    SVDPadePublished,
    SVDTaylorPublished,
    SVDTruncPublished,
)
from rootpool.report.plots.drawing import WIDE, below, fit, legend, logarithmic
from rootpool.report.records import Record

from ..result import Result
from .exact_gradient import feature_gradient, feature_maps
from .statement import OURS, THEIRS, Finding, normal, numbers, relative_error

__all__ = ["REFERENCE_KERNELS", "draw_ties", "reference_gradient", "ties"]

EXACT_TIES = ("fewer positions than channels", "equal")
NO_NUMBER = 1e2  # where a cross stands for a result that is not a number


def ties() -> Finding:
    """Gradients with respect to the features: by the paper's equations, by our layers, and the exact one."""
    records: list[Record] = []
    for kind, X in feature_maps().items():
        G = normal(len(X), len(X), seed=3)
        expected, _ = feature_gradient(X, G)
        for name, (method, kernel) in REFERENCE_KERNELS.items():
            reference = relative_error(reference_gradient(X, G, kernel), expected)
            ours = relative_error(_layer_gradient(X, G, method), expected)
            records.append(
                {"spectrum": kind, "method": name, "reference_error": reference, "our_error": ours}
            )
        exact = relative_error(_layer_gradient(X, G, "exact"), expected)
        records.append({"spectrum": kind, "method": "exact", "our_error": exact})
    return _finding(records)


def _finding(records: list[Record]) -> Finding:
    equal = [r for r in records if r["spectrum"] == "equal" and "reference_error" in r]
    thin = [r for r in records if r["spectrum"] == EXACT_TIES[0] and "reference_error" in r]
    wrong = sum(not float(r["reference_error"] or 0) < 0.1 for r in equal)
    missing = [
        str(r["method"]) for r in thin if not math.isfinite(float(r["reference_error"] or 0))
    ]
    ours = max(e for kind in EXACT_TIES for e in numbers(records, "our_error", spectrum=kind))
    exact = max(numbers(records, "our_error", method="exact"))
    near = [r for r in records if r["spectrum"] == "equal up to rounding"]
    lost = [str(r["method"]) for r in near if float(r["our_error"] or 0) > 0.1]
    return Finding(
        records,
        wrong == len(equal) and bool(missing) and ours < 1e-7 and exact < 1e-12,
        f"At equal eigenvalues, {wrong} of {len(equal)} gradients by the paper's equations are wrong or "
        f"not finite. With fewer positions than channels, there is no gradient by {' and '.join(missing)}. A "
        f"finite kernel does no harm there, because no feature points into the null space. Our layers "
        f"are right to {ours:.0e} in both cases. Within rounding of a tie, {' and '.join(lost)} are wrong "
        f"even in our form, since they bound the kernel. The exact gradient is right to {exact:.0e} "
        f"everywhere.",
        {"dtype": "float64"},
    )


def _layer_gradient(X: Tensor, G: Tensor, method: str) -> Tensor:
    X = X.unsqueeze(0).clone().requires_grad_()
    (gradient,) = torch.autograd.grad(covariance_pool(X, method, output="matrix")[0], X, G)
    return gradient[0]


def draw_ties(result: Result, width: float) -> Figure:
    """Errors by method, one plot for each kind of spectrum."""
    kinds = list(dict.fromkeys(str(r["spectrum"]) for r in result.records))
    methods = list(dict.fromkeys(str(r["method"]) for r in result.records))[::-1]
    columns = 2 if width >= WIDE else 1
    rows = math.ceil(len(kinds) / columns)
    figure = Figure(figsize=(width, 0.5 + 1.9 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flat
    handles: dict[str, Line2D] = {}
    for axes, kind in zip(grid, kinds, strict=True):
        found = [r for r in result.records if r["spectrum"] == kind]
        axes.set_title(kind, loc="left")
        for key, colour, name, shift in (
            ("reference_error", THEIRS, "the paper's equations", 0.16),
            ("our_error", OURS, "rootpool", -0.16),
        ):
            points = [(methods.index(str(r["method"])) + shift, r[key]) for r in found if key in r]
            handles[name] = _dots(axes, points, colour)
        axes.set_yticks(range(len(methods)), [fit(method, 1.4, lines=3) for method in methods])
        axes.grid(False, axis="y")
        axes.set_xlim(1e-17, 1e6)
        logarithmic(axes, "x")
        axes.set_xticks([1e-15, 1e-10, 1e-5, 1, 1e5])
    below(figure, "relative error of the gradient, logarithmic; ×: not a number")
    legend(figure, handles, width)
    return figure


def _dots(axes: Axes, points: Sequence[tuple[float, object]], colour: str) -> Line2D:
    """Dots, and a cross at the edge for a result that is not a number."""
    finite = [(y, float(x)) for y, x in points if isinstance(x, float) and math.isfinite(x)]
    (dots,) = axes.plot(
        [max(x, 1e-16) for _, x in finite], [y for y, _ in finite], "o", color=colour
    )
    for y, x in points:
        if isinstance(x, float) and not math.isfinite(x):
            axes.plot(NO_NUMBER, y, "x", color=colour, markersize=6)
            axes.annotate(
                "none", (NO_NUMBER, y), (6, 0), textcoords="offset points", va="center", size=8
            )
    return dots


# --------------------------------------------------------------------------------------------------
# The paper's layer as its equations define it: to show its gradients at ties, not for training


def _laundered(a: Tensor, b: Tensor) -> Tensor:
    """Infinities replaced by the largest finite entry, as the published code does."""
    K = 1 / (a - b)
    infinite = K.isinf()
    return torch.where(infinite, K[~infinite].amax(), K)


# Our method of the same kind, and the kernel of the reference.
REFERENCE_KERNELS: dict[str, tuple[str, PairKernel]] = {
    "SVD": ("mpn-cov", MPNCovPublished().pair_kernel),
    "SVD, infinities replaced": ("mpn-cov", _laundered),
    "SVD-Trunc": ("svd-trunc", SVDTruncPublished().pair_kernel),
    "SVD-Taylor": ("svd-taylor", SVDTaylorPublished().pair_kernel),
    "SVD-Pade": ("svd-pade", SVDPadePublished().pair_kernel),
}


def reference_gradient(X: Tensor, G: Tensor, kernel: PairKernel) -> Tensor:
    """Equations (4) to (6) of the paper: the gradient of the root with respect to features ``(d, N)``."""
    d, N = X.shape
    A = X - X.mean(-1, keepdim=True)
    U, lam, _ = torch.linalg.svd(A @ A.mT / N)
    lam = lam.clamp_min(torch.finfo(lam.dtype).eps)
    row, column = torch.triu_indices(d, d, 1)
    K = lam.new_zeros(d, d)
    K[row, column] = kernel(lam[row], lam[column])
    K = K - K.mT
    to_vectors = (G + G.mT) @ (U * lam.sqrt())
    to_values = (U.mT @ G @ U).diagonal() / (2 * lam.sqrt())
    to_covariance = U @ (K.mT * (U.mT @ to_vectors) + torch.diag(to_values)) @ U.mT
    return (to_covariance + to_covariance.mT) @ A / N
