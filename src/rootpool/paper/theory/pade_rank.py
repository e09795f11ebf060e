"""The system for the coefficients of a Padé approximant of 1/(1 - x) has rank one."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from matplotlib.figure import Figure

from rootpool.analysis import Record
from rootpool.report.plots.drawing import below, legend, logarithmic
from rootpool.report.plots.palette import MUTED

from ..approximants import pade_approximant
from ..result import Result
from .common import numbers
from .drawing import OURS, one_plot
from .statement import Finding, Statement

__all__ = ["STATEMENT", "pade_rank"]


def pade_rank(degrees: Sequence[int] = (2, 10, 50, 100, 200, 300)) -> Finding:
    """The system that defines the denominator has rank one, whatever the degree."""
    records: list[Record] = []
    points = (Fraction(1, 3), Fraction(999, 1000))
    for degree in degrees:
        n = degree // 2
        approximant = pade_approximant([1] * (degree + 1), degree - n, n)
        records.append(
            {
                "degree": degree,
                "unknowns": n,
                "rank": approximant.rank,
                "free": n - approximant.rank,
                "is_the_function": all(approximant(x) == 1 / (1 - x) for x in points),
            }
        )
    ranks = sorted({int(rank) for rank in numbers(records, "rank")})
    return Finding(
        records,
        ranks == [1] and all(r["is_the_function"] for r in records),
        f"In exact arithmetic the rank is {' and '.join(map(str, ranks))} for every degree from "
        f"{degrees[0]} to {degrees[-1]}; at degree {degrees[-1]}, {records[-1]['free']} of the "
        f"{records[-1]['unknowns']} unknowns are free.",
        {"arithmetic": "rational"},
    )


def draw(result: Result, width: float) -> Figure:
    figure, axes = one_plot(width, 2.8)
    degrees = numbers(result.records, "degree")
    (unknowns,) = axes.plot(degrees, numbers(result.records, "unknowns"), "o-", color=MUTED.light)
    (rank,) = axes.plot(degrees, numbers(result.records, "rank"), "o-", color=OURS)
    logarithmic(axes, "x")
    logarithmic(axes, "y")
    axes.set_ylabel("number, logarithmic")
    below(figure, "degree of the approximant, logarithmic")
    legend(figure, {"unknown coefficients": unknowns, "independent equations": rank}, width)
    return figure


STATEMENT = Statement(
    "pade-rank",
    title="Padé approximants of 1/(1 − x) are 1/(1 − x)",
    text=(
        "A Padé approximant of a function is a quotient of two polynomials whose power series agrees "
        "with that of the function for as many terms as possible. Its coefficients solve a linear "
        "system, which is made of the coefficients of the series. The series of 1/(1 − x) is "
        "1 + x + x² + …: all coefficients are one, so all rows of the system are the same, and a single "
        "equation is left for all unknowns. There is a reason for this. The function is a quotient of "
        "polynomials itself, and every solution of the system is that quotient again, with a common "
        "factor in numerator and denominator.",
    ),
    claim="1/(1 - x) is rational, so each of its Pade approximants is 1/(1 - x) itself, and the linear "
    "system for the coefficients is singular: its matrix is all ones.",
    caption="Unknown coefficients of the denominator, and the rank of the system for them.",
    compute=pade_rank,
    draw=draw,
)
