"""The Padé approximants of 1/(1 - x) are degenerate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from rootpool.analysis import Record

from ..approximants import pade_coefficients
from ..result import Result
from .common import numbers
from .reference import pade_in_precision, polynomial

__all__ = ["pade_coefficients_by_precision", "pade_rank"]


def pade_rank(degrees: Sequence[int] = (2, 10, 50, 100, 200, 300)) -> Result:
    """The system that defines the denominator has rank one, whatever the degree."""
    records: list[Record] = []
    points = (Fraction(1, 3), Fraction(999, 1000))
    for degree in degrees:
        approximant = pade_coefficients([1] * (degree + 1), degree - degree // 2, degree // 2)
        records.append(
            {
                "degree": degree,
                "unknowns": approximant.n,
                "rank": approximant.rank,
                "free": approximant.n - approximant.rank,
                "is_the_function": all(approximant(x) == 1 / (1 - x) for x in points),
            }
        )
    ranks = sorted({int(rank) for rank in numbers(records, "rank")})
    return Result(
        "theory:pade-rank",
        "1/(1 - x) is rational, so each of its Pade approximants is 1/(1 - x) itself, and the linear "
        "system for the coefficients is singular: its matrix is all ones.",
        tuple(records),
        ranks == [1] and all(r["is_the_function"] for r in records),
        f"In exact arithmetic the rank is {' and '.join(map(str, ranks))} for every degree from "
        f"{degrees[0]} to {degrees[-1]}; at degree {degrees[-1]}, {records[-1]['free']} of the "
        f"{records[-1]['unknowns']} unknowns are free.",
        {"arithmetic": "rational"},
    )


def pade_coefficients_by_precision(digits: Sequence[int] = (15, 20, 30, 50)) -> Result:
    """Solved for in floating point, the coefficients of degree 100 are rounding errors."""
    records: list[Record] = []
    for precision in digits:
        p, q = pade_in_precision(100, precision)
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
    return Result(
        "theory:pade-coefficients",
        "The coefficients that a linear solve returns are arbitrary and change with the precision; "
        "only their quotient means something, and at a tie not even that.",
        tuple(records),
        max(first) - min(first) > 0.1 and worst < 1e-6,
        f"p_1 comes out as {', '.join(f'{p:.2f}' for p in first)} with "
        f"{', '.join(map(str, digits))} digits, while the quotient at 0.999 stays within {worst:.0e} "
        f"of 1000. Rounded to float64, the value at 1 is {', '.join(f'{v:.1e}' for v in ends)}.",
        {"degree": 100},
    )
