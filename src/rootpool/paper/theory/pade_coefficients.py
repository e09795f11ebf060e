"""In floating point, the coefficients of a Padé approximant are rounding noise."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.figure import Figure

from rootpool.analysis import Record
from rootpool.nn.published import pade_coefficients, polynomial
from rootpool.report.plots.drawing import below, legend

from ..result import Result
from .common import numbers
from .drawing import LOOKS, one_plot
from .statement import Finding, Statement

__all__ = ["STATEMENT", "pade_coefficients_by_precision"]


def pade_coefficients_by_precision(digits: Sequence[int] = (15, 20, 30, 50)) -> Finding:
    """The coefficients of degree 100, computed with several numbers of digits."""
    records: list[Record] = []
    for precision in digits:
        p, q = pade_coefficients(100, precision)
        above, below = math.fsum(p), math.fsum(q)
        quotient = polynomial(p, 0.999) / polynomial(q, 0.999)
        records.append(
            {
                "digits": precision,
                "p_1": p[1],
                "p_2": p[2],
                "q_1": q[1],
                "error_at_0.999": abs(quotient - 1 / (1 - 0.999)),
                "value_at_1": above / below if below else math.inf,
            }
        )
    first, ends = numbers(records, "p_1"), numbers(records, "value_at_1")
    worst = max(numbers(records, "error_at_0.999"))
    return Finding(
        records,
        max(first) - min(first) > 0.1 and worst < 1e-6,
        f"With {', '.join(map(str, digits))} digits, p_1 is {', '.join(f'{p:.2f}' for p in first)}, "
        f"while the quotient at 0.999 stays within {worst:.0e} of 1000. With the coefficients rounded to "
        f"float64, the quotient at 1 is {', '.join(f'{v:.1e}' for v in ends)}.",
        {"degree": 100},
    )


def draw(result: Result, width: float) -> Figure:
    figure, axes = one_plot(width, 2.8)
    digits = [str(r["digits"]) for r in result.records]
    handles = {}
    for (key, name), look in zip(
        (("p_1", "p₁"), ("p_2", "p₂"), ("q_1", "q₁")), LOOKS, strict=False
    ):
        (handles[name],) = axes.plot(
            digits, numbers(result.records, key), look.marker, color=look.colour, markersize=7
        )
    axes.set_ylabel("computed value")
    below(figure, "decimal digits of the linear solve")
    legend(figure, handles, width)
    return figure


STATEMENT = Statement(
    "pade-coefficients",
    title="In floating point, the coefficients are rounding noise",
    text=(
        "In floating point a computer can still solve that singular system, because rounding errors "
        "make it look regular. The coefficients then depend on how many digits it computes with. Their "
        "quotient is still 1/(1 − x), up to rounding. But at x = 1, where two eigenvalues are equal, "
        "numerator and denominator are both noise, and the quotient has any size and sign. A well-posed "
        "SVD-Pade is therefore 1 / (λ_i − λ_j) itself, with a stated value at ties. That is what "
        "rootpool computes under this name.",
    ),
    claim="The coefficients from a linear solver are arbitrary and change with the precision. Only their "
    "quotient has a meaning, and at a tie it has none either.",
    caption="Three coefficients of the approximant of degree 100, by the precision of the solver.",
    compute=pade_coefficients_by_precision,
    draw=draw,
)
