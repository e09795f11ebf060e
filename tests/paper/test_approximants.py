"""Padé approximants against those in the books and against their definition."""

import math
from fractions import Fraction

import pytest

from rootpool.paper.approximants import pade_coefficients, toeplitz_system

EXP = [Fraction(1, math.factorial(k)) for k in range(20)]
LOG = [Fraction(0), *(Fraction((-1) ** (k + 1), k) for k in range(1, 20))]  # log(1 + x)
GEOMETRIC = [1] * 40


def multiply(a, b, terms):
    product = [Fraction(0)] * terms
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            if i + j < terms:
                product[i + j] += x * y
    return product


def test_the_exponential():
    """[2/2] of exp: (12 + 6x + x^2) / (12 - 6x + x^2)."""
    got = pade_coefficients(EXP, 2, 2)
    assert got.numerator == (1, Fraction(1, 2), Fraction(1, 12))
    assert got.denominator == (1, Fraction(-1, 2), Fraction(1, 12))
    assert got.rank == 2
    assert not got.degenerate


def test_the_logarithm():
    """[2/1] of log(1 + x): (6x + x^2) / (6 + 4x)."""
    got = pade_coefficients(LOG, 2, 1)
    assert got.numerator == (0, 1, Fraction(1, 6))
    assert got.denominator == (1, Fraction(2, 3))


@pytest.mark.parametrize("series", [EXP, LOG, GEOMETRIC, [3, 0, 1, 5, 2, 7, 1, 8, 2, 8, 1, 8]])
@pytest.mark.parametrize("degrees", [(0, 0), (3, 0), (4, 3), (3, 4), (5, 5)])
def test_the_definition(series, degrees):
    """Q times the series is P up to x^(m+n)."""
    m, n = degrees
    got = pade_coefficients(series, m, n)
    assert got.denominator[0] == 1
    assert len(got.numerator) <= m + 1
    assert len(got.denominator) <= n + 1
    product = multiply(got.denominator, [Fraction(a) for a in series[: m + n + 1]], m + n + 1)
    expected = list(got.numerator) + [0] * (m + n + 1 - len(got.numerator))
    assert product == expected


@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 3), (10, 9), (50, 50), (150, 150)])
def test_the_geometric_series_is_degenerate(m, n):
    got = pade_coefficients([1] * (m + n + 1), m, n)
    assert got.numerator == (1,)
    assert got.denominator == (1, -1)
    assert got.rank == 1
    assert got.degenerate == (n > 1)
    assert got(Fraction(999, 1000)) == 1000
    with pytest.raises(ZeroDivisionError):
        got(1)


def test_rank_of_other_rational_functions():
    """1 / ((1 - x)(1 - 2x)) has a denominator of degree 2, whatever degree is asked for."""
    series = [2 ** (k + 1) - 1 for k in range(20)]
    assert [pade_coefficients(series, n, n).rank for n in range(1, 8)] == [1, 2, 2, 2, 2, 2, 2]
    assert pade_coefficients(series, 6, 6).denominator == (1, -3, 2)


def test_an_approximant_that_does_not_exist():
    """1 + x^2: [1/1] would need Q = 1 + q x with q * 0 = -1."""
    with pytest.raises(ValueError, match=r"\[1/1\] of this series does not exist"):
        pade_coefficients([1, 0, 1], 1, 1)


def test_a_float_is_the_fraction_that_it_is():
    assert pade_coefficients([0.1], 0, 0).numerator == (Fraction(0.1),)
    assert pade_coefficients([0.1], 0, 0).numerator != (Fraction(1, 10),)
    nearly = [1.0, 1.0, 1.0, 1.0 + 2**-52, 1.0]
    assert pade_coefficients(nearly, 2, 2).rank == 2  # not degenerate, and far from 1 / (1 - x)


def test_toeplitz_system_below_the_series():
    matrix, right = toeplitz_system([2, 3, 5, 7], 0, 3)
    assert matrix == [[2, 0, 0], [3, 2, 0], [5, 3, 2]]
    assert right == [-3, -5, -7]


def test_wrong_arguments():
    with pytest.raises(ValueError, match=r"\[2/2\] needs the series up to x\^4, 5 .*, got 4"):
        pade_coefficients([1] * 4, 2, 2)
    with pytest.raises(ValueError, match=r"0 or more, got \[-1/2\]"):
        pade_coefficients([1] * 4, -1, 2)
