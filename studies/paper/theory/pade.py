"""Padé approximants of 1/(1 - x): a system of rank one, and coefficients that are rounding noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from rootpool.nn.published import pade_coefficients
from rootpool.report import Record

from ..approximants import pade_approximant
from .statement import Checked, numbers, statement

__all__ = ["coefficients", "pade_coefficients_by_digits", "pade_rank", "rank"]


def pade_rank(degrees: Sequence[int] = (2, 10, 50, 100, 200, 300)) -> Checked:
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
    return Checked(
        records,
        ranks == [1] and all(r["is_the_function"] for r in records),
        f"In exact arithmetic the rank is {' and '.join(map(str, ranks))} for every degree from "
        f"{degrees[0]} to {degrees[-1]}; at degree {degrees[-1]}, {records[-1]['free']} of the "
        f"{records[-1]['unknowns']} unknowns are free.",
    )


def pade_coefficients_by_digits(digits: Sequence[int] = (15, 20, 30, 50)) -> Checked:
    """The coefficients of degree 100, computed with several numbers of digits."""
    records: list[Record] = []
    for precision in digits:
        p, q = pade_coefficients(100, precision)
        at_one = math.fsum(p), math.fsum(q)
        quotient = np.polyval(p[::-1], 0.999) / np.polyval(q[::-1], 0.999)
        records.append(
            {
                "digits": precision,
                "p_1": p[1],
                "p_2": p[2],
                "q_1": q[1],
                "error_at_0.999": abs(quotient - 1 / (1 - 0.999)),
                "value_at_1": at_one[0] / at_one[1] if at_one[1] else math.inf,
            }
        )
    first, ends = numbers(records, "p_1"), numbers(records, "value_at_1")
    worst = max(numbers(records, "error_at_0.999"))
    return Checked(
        records,
        max(first) - min(first) > 0.1 and worst < 1e-6,
        f"With {', '.join(map(str, digits))} digits, p_1 is {', '.join(f'{p:.2f}' for p in first)}, "
        f"while the quotient at 0.999 stays within {worst:.0e} of 1000. With the coefficients rounded to "
        f"float64, the quotient at 1 is {', '.join(f'{v:.1e}' for v in ends)}.",
    )


rank = statement(pade_rank)
coefficients = statement(pade_coefficients_by_digits)
