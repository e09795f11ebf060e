"""What equal eigenvalues do to the gradients of the methods."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor

from rootpool.analysis import Record
from rootpool.nn import covariance_pool
from rootpool.report.plots.drawing import WIDE, below, fit, legend, logarithmic

from ..result import Result
from .common import normal, numbers, relative_error
from .drawing import OURS, THEIRS
from .maps import feature_gradient, feature_maps
from .reference import REFERENCE_KERNELS, reference_gradient
from .statement import Finding, Statement

__all__ = ["STATEMENT", "ties"]

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


def draw(result: Result, width: float) -> Figure:
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


STATEMENT = Statement(
    "ties",
    title="At ties, a kernel alone cannot give the gradient of the root",
    text=(
        "Ties are the normal case. With fewer positions than channels (49 and 256 in a ResNet), most "
        "eigenvalues of every covariance are zero, and are raised to the same tiny constant. The gradient "
        "contains the product of the kernel and the difference of the roots, "
        "(√λ_i − √λ_j) / (λ_i − λ_j). As two eigenvalues become equal, it tends to 1 / (2√λ). With an "
        "infinite kernel the product is NaN instead. With a bounded kernel it is zero times a large "
        "number: zero, and not the limit. If kernel and root are combined before anything is evaluated, "
        "the limit can be used at a tie. All methods of rootpool do that. Away from ties they keep the "
        "kernel of their method.",
    ),
    claim="At a tie, the paper's equations give no gradient if the kernel is infinite there, and ignore the "
    "tie if the kernel is finite. Combined with the root, every kernel is right at a tie. The exact "
    "gradient is right near a tie, too.",
    caption="Error of the gradient with respect to the features, for four kinds of spectra.",
    compute=ties,
    draw=draw,
)
