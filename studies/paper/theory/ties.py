"""What equal eigenvalues do to the gradients of the methods."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor

from rootpool.nn import covariance, covariance_pool
from rootpool.report import Record
from rootpool.report.plots.drawing import below, legend, logarithmic

from .exact_gradient import feature_gradient, feature_maps, native_root
from .statement import OURS, THEIRS, Checked, normal, numbers, relative_error, statement

__all__ = ["statement_on_ties", "ties"]

EXACT_TIES = ("fewer positions than channels", "equal")
TORCH = "torch.linalg.eigh"
# The paper's method, and ours of the same kind; without a remedy its kernel is that of torch.
FORMS = {
    "SVD": (TORCH, "mpn-cov"),
    "SVD, no infinities": ("mpn-cov-published", "mpn-cov"),
    "SVD-Trunc": ("svd-trunc-published", "svd-trunc"),
    "SVD-Taylor": ("svd-taylor-published", "svd-taylor"),
    "SVD-Pade": ("svd-pade-published", "svd-pade"),
}
NO_NUMBER = 1e18  # where "NaN" is written, beyond all numbers


def ties() -> Checked:
    """Gradients with respect to the features: by the paper's equations, by our layers, and the exact one."""
    records: list[Record] = []
    for kind, X in feature_maps().items():
        G = normal(len(X), len(X), seed=3)
        expected, _ = feature_gradient(X, G)
        for name, (reference_form, method) in FORMS.items():
            reference = relative_error(_layer_gradient(X, G, reference_form), expected)
            ours = relative_error(_layer_gradient(X, G, method), expected)
            records.append(
                {"spectrum": kind, "method": name, "reference_error": reference, "our_error": ours}
            )
        exact = relative_error(_layer_gradient(X, G, "exact"), expected)
        records.append({"spectrum": kind, "method": "exact", "our_error": exact})
    return _checked(records)


def _checked(records: list[Record]) -> Checked:
    equal = [r for r in records if r["spectrum"] == "equal" and "reference_error" in r]
    thin = [r for r in records if r["spectrum"] == EXACT_TIES[0] and "reference_error" in r]
    wrong = sum(not float(r["reference_error"] or 0) < 0.1 for r in equal)
    missing = [r["method"] for r in thin if not math.isfinite(r["reference_error"])]
    ours = max(e for kind in EXACT_TIES for e in numbers(records, "our_error", spectrum=kind))
    exact = max(numbers(records, "our_error", method="exact"))
    near = [r for r in records if r["spectrum"] == "equal up to rounding"]
    lost = [str(r["method"]) for r in near if float(r["our_error"] or 0) > 0.1]
    return Checked(
        records,
        wrong == len(equal) and bool(missing) and ours < 1e-7 and exact < 1e-12,
        f"At equal eigenvalues, {wrong} of {len(equal)} gradients by the paper's equations are wrong or "
        f"not finite. With fewer positions than channels, there is no gradient by {' and '.join(missing)}. A "
        f"finite kernel does no harm there, because no feature points into the null space. Our layers "
        f"are right to {ours:.0e} in both cases. Within rounding of a tie, {' and '.join(lost)} are wrong "
        f"even in our code, since they bound the kernel. The exact gradient is right to "
        f"{exact:.0e} everywhere.",
    )


def _layer_gradient(X: Tensor, G: Tensor, method: str) -> Tensor:
    X = X.unsqueeze(0).clone().requires_grad_()
    P = covariance(X)
    Q = native_root(P) if method == TORCH else covariance_pool(X, method, output="matrix")
    (gradient,) = torch.autograd.grad(Q[0], X, G)
    return gradient[0]


def _draw(records: Sequence[Record], width: float) -> Figure:
    """Errors by method, one plot for each kind of spectrum."""
    kinds = list(dict.fromkeys(r["spectrum"] for r in records))
    methods = list(dict.fromkeys(r["method"] for r in records))[::-1]
    figure = Figure(figsize=(width, 0.5 + 1.9 * len(kinds) / 2), layout="constrained")
    grid = figure.subplots(len(kinds) // 2, 2, sharex=True, sharey=True, squeeze=False).flat
    handles: dict[str, Line2D] = {}
    for axes, kind in zip(grid, kinds, strict=True):
        axes.set_title(kind, loc="left")
        for key, colour, name, shift in (
            ("reference_error", THEIRS, "the paper's equations", 0.16),
            ("our_error", OURS, "rootpool", -0.16),
        ):
            for r in records:
                if r["spectrum"] == kind and key in r:
                    at = methods.index(r["method"]) + shift
                    if math.isfinite(r[key]):
                        (handles[name],) = axes.plot(max(r[key], 1e-16), at, "o", color=colour)
                    else:
                        axes.text(NO_NUMBER, at, "NaN", color=colour, ha="center", va="center")
        axes.set_yticks(range(len(methods)), methods)
        axes.grid(False, axis="y")
        axes.set_xlim(1e-17, 1e20)
        logarithmic(axes, "x")
        axes.set_xticks([1e-16, 1e-8, 1, 1e8, 1e16])
    below(figure, "relative error of the gradient, logarithmic")
    legend(figure, handles, width)
    return figure


statement_on_ties = statement(ties, _draw)
