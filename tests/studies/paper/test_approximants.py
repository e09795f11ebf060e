"""Padé approximants against those in the books and against their definition."""

import math
from fractions import Fraction

import pytest

from studies.paper.approximants import pade_approximant

EXP = [Fraction(1, math.factorial(k)) for k in range(20)]
GEOMETRIC = [1] * 40


def multiply(a, b, terms):
    product = [Fraction(0)] * terms
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            if i + j < terms:
                product[i + j] += x * y
    return product


@pytest.mark.parametrize("series", [EXP, GEOMETRIC, [3, 0, 1, 5, 2, 7, 1, 8, 2, 8, 1, 8]])
@pytest.mark.parametrize(("m", "n"), [(4, 3), (3, 4), (5, 5)])
def test_the_definition(series, m, n):
    """Q times the series is P up to x^(m+n), which makes P and Q unique up to a common factor."""
    got = pade_approximant(series, m, n)
    assert got.denominator[0] == 1
    product = multiply(got.denominator, [Fraction(a) for a in series], m + n + 1)
    assert product == list(got.numerator) + [0] * n


@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 3), (50, 50)])
def test_the_geometric_series_is_degenerate(m, n):
    got = pade_approximant([1] * (m + n + 1), m, n)
    assert got.rank == 1
    assert got(Fraction(999, 1000)) == 1000
    with pytest.raises(ZeroDivisionError):
        got(Fraction(1))


def test_rank_of_another_rational_function():
    """1 / ((1 - x)(1 - 2x)) has a denominator of degree 2, whatever degree is asked for."""
    series = [2 ** (k + 1) - 1 for k in range(20)]
    assert [pade_approximant(series, n, n).rank for n in (1, 2, 7)] == [1, 2, 2]
