r"""Padé approximants in exact arithmetic, where rounding cannot hide that one is degenerate.

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

__all__ = ["PadeApproximant", "pade_approximant"]


@dataclass(frozen=True)
class PadeApproximant:
    """An approximant: coefficients from the lowest power on, and the rank of the Toeplitz system.

    If the rank is below the degree of the denominator, the coefficients are one choice of many, and the
    approximant is a rational function of lower degree.
    """

    numerator: tuple[Fraction, ...]
    denominator: tuple[Fraction, ...]
    rank: int

    def __call__(self, x: Fraction) -> Fraction:
        """The exact value; raise ``ZeroDivisionError`` at a pole."""
        above, below = (
            sum((c * x**k for k, c in enumerate(part)), Fraction(0))
            for part in (self.numerator, self.denominator)
        )
        return above / below


def pade_approximant(series: Sequence[int | Fraction], m: int, n: int) -> PadeApproximant:
    """The approximant ``[m/n]`` of a series that is given up to the power ``m + n``.

    >>> geometric = pade_approximant([1] * 101, 50, 50)
    >>> geometric.rank, geometric(Fraction(999, 1000))
    (1, Fraction(1000, 1))
    """
    from sympy import QQ  # type: ignore[import-untyped]  # sympy comes with torch
    from sympy.polys.matrices import DomainMatrix  # type: ignore[import-untyped]

    a = [Fraction(coefficient) for coefficient in series]
    system = [[a[m + i - j] if m + i >= j else 0 for j in range(1, n + 1)] for i in range(1, n + 1)]
    rows = [
        [QQ(v.numerator, v.denominator) for v in (*row, -a[m + i])]
        for i, row in enumerate(system, start=1)
    ]
    reduced, pivots = DomainMatrix(rows, (n, n + 1), QQ).rref()
    if n in pivots:
        raise ValueError(f"the approximant [{m}/{n}] of this series does not exist")
    q = [Fraction(1)] + [Fraction(0)] * n  # unknowns without a pivot are free: zero
    for k, column in enumerate(pivots):
        value = reduced[k, n].element
        q[column + 1] = Fraction(int(value.numerator), int(value.denominator))
    p = [sum((a[k - j] * q[j] for j in range(min(k, n) + 1)), Fraction(0)) for k in range(m + 1)]
    return PadeApproximant(tuple(p), tuple(q), len(pivots))
