r"""Padé approximants in exact arithmetic, where a degenerate one cannot hide behind rounding.

The approximant :math:`[m/n] = P(x)/Q(x)`, :math:`Q(0) = 1`, of a series :math:`\sum a_k x^k` agrees
with it up to :math:`x^{m+n}`. Its denominator solves the n x n Toeplitz system

.. math:: \sum_{j=1}^{n} a_{m+i-j}\, q_j = -a_{m+i}, \qquad i = 1 \dots n, \quad a_{k<0} = 0 .

When the series belongs to a rational function of lower degree, like :math:`1/(1-x)`, the system is
singular: the coefficients are not unique (the approximant is, and it is the function). Solved in
floating point it still yields numbers, and they are rounding errors divided by rounding errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

__all__ = ["PadeApproximant", "pade_coefficients", "toeplitz_system"]

Number = int | float | Fraction


@dataclass(frozen=True)
class PadeApproximant:
    """A Padé approximant ``[m/n]`` with exact coefficients, lowest power first, no zeros at the end.

    ``rank`` is that of the Toeplitz system. Below ``n`` the coefficients are one choice of many, the
    one with the lowest powers, and the approximant is a rational function of lower degree.
    """

    m: int
    n: int
    numerator: tuple[Fraction, ...]
    denominator: tuple[Fraction, ...]
    rank: int

    @property
    def degenerate(self) -> bool:
        """Whether the linear system that defines the coefficients is singular."""
        return self.rank < self.n

    def __call__(self, x: Number) -> Fraction:
        """The exact value; raise ``ZeroDivisionError`` at a pole."""
        return _horner(self.numerator, Fraction(x)) / _horner(self.denominator, Fraction(x))


def _horner(coefficients: Sequence[Fraction], x: Fraction) -> Fraction:
    value = Fraction(0)
    for c in reversed(coefficients):
        value = value * x + c
    return value


def _check(series: Sequence[Number], m: int, n: int) -> list[Fraction]:
    if m < 0 or n < 0:
        raise ValueError(f"the degrees of an approximant are 0 or more, got [{m}/{n}]")
    if len(series) < m + n + 1:
        raise ValueError(
            f"[{m}/{n}] needs the series up to x^{m + n}, {m + n + 1} coefficients, got {len(series)}"
        )
    return [Fraction(a) for a in series[: m + n + 1]]


def toeplitz_system(
    series: Sequence[Number], m: int, n: int
) -> tuple[list[list[Fraction]], list[Fraction]]:
    """Matrix and right-hand side of the system for the denominator of ``[m/n]``.

    >>> toeplitz_system([1, 1, 1, 1, 1], 2, 2)[0]
    [[Fraction(1, 1), Fraction(1, 1)], [Fraction(1, 1), Fraction(1, 1)]]
    """
    a = _check(series, m, n)
    matrix = [
        [a[m + i - j] if m + i >= j else Fraction(0) for j in range(1, n + 1)]
        for i in range(1, n + 1)
    ]
    return matrix, [-a[m + i] for i in range(1, n + 1)]


def pade_coefficients(series: Sequence[Number], m: int, n: int) -> PadeApproximant:
    r"""The approximant ``[m/n]`` of a series, in rational arithmetic.

    Args:
        series: :math:`a_0 \dots a_{m+n}` at least; floats count as the binary fractions they are.
        m: degree of the numerator.
        n: degree of the denominator.

    Raises:
        ValueError: if the approximant does not exist (the system has no solution).

    >>> geometric = pade_coefficients([1] * 101, 50, 50)
    >>> geometric.numerator, geometric.denominator, geometric.rank
    ((Fraction(1, 1),), (Fraction(1, 1), Fraction(-1, 1)), 1)
    """
    a = _check(series, m, n)
    matrix, right = toeplitz_system(series, m, n)
    rank, solution = _solve([[*row, b] for row, b in zip(matrix, right, strict=True)], n)
    if solution is None:
        raise ValueError(
            f"the approximant [{m}/{n}] of this series does not exist: its equations contradict each "
            "other; try other degrees"
        )
    q = [Fraction(1), *solution]
    p = [sum((a[k - j] * q[j] for j in range(min(k, n) + 1)), Fraction(0)) for k in range(m + 1)]
    return PadeApproximant(m, n, _without_zeros(p), _without_zeros(q), rank)


def _without_zeros(coefficients: list[Fraction]) -> tuple[Fraction, ...]:
    last = max((k for k, c in enumerate(coefficients) if c), default=0)
    return tuple(coefficients[: last + 1])


def _solve(rows: list[list[Fraction]], n: int) -> tuple[int, list[Fraction] | None]:
    """Rank and a solution of an augmented system by Gauss-Jordan; free unknowns, the last, are zero."""
    pivots: list[int] = []
    for column in range(n):
        rank = len(pivots)
        found = next((r for r in range(rank, len(rows)) if rows[r][column]), None)
        if found is None:
            continue
        rows[rank], rows[found] = rows[found], rows[rank]
        pivot = rows[rank][column]
        rows[rank] = [v / pivot for v in rows[rank]]
        for r, row in enumerate(rows):
            if r != rank and row[column]:
                factor = row[column]
                rows[r] = [v - factor * w for v, w in zip(row, rows[rank], strict=True)]
        pivots.append(column)
    if any(row[n] for row in rows[len(pivots) :]):
        return len(pivots), None
    solution = [Fraction(0)] * n
    for row, column in zip(rows, pivots, strict=False):
        solution[column] = row[n]
    return len(pivots), solution
