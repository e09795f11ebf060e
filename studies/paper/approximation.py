r"""How well Taylor polynomials and Padé approximants approximate :math:`1/(1 - x)`, measured exactly.

Two errors, both in rational arithmetic. The error of the *approximant* depends on degree and ratio:
:math:`x^{K+1}/(1-x)` for Taylor, and zero for Padé, since :math:`1/(1-x)` is its own approximant. The
error of the *kernel* is that of our gradient rule in floating point, rounding included: it cannot be
guaranteed below half a unit in the last place of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction

import torch

from rootpool.linalg import GradientRule, Pade, Taylor
from rootpool.report.records import Record

from .approximants import pade_approximant

__all__ = ["FAMILIES", "approximation_errors", "kernel_error"]


def _taylor(degree: int) -> Callable[[Fraction], Fraction]:
    def polynomial(x: Fraction) -> Fraction:
        value = Fraction(0)
        for _ in range(degree + 1):
            value = value * x + 1
        return value

    return polynomial


def _diagonal_pade(degree: int) -> Callable[[Fraction], Fraction]:
    """The approximant that agrees with the series up to ``degree``, half of it in each polynomial."""
    return pade_approximant([1] * (degree + 1), degree - degree // 2, degree // 2)


# For each family: the approximant of a degree, and the gradient rule that uses it as its kernel.
FAMILIES: dict[
    str, tuple[Callable[[int], Callable[[Fraction], Fraction]], Callable[[int], GradientRule]]
] = {"taylor": (_taylor, Taylor), "pade": (_diagonal_pade, Pade)}


def kernel_error(rule: GradientRule, ratio: float, dtype: torch.dtype = torch.float64) -> Fraction:
    """How far the kernel between eigenvalues ``ratio`` and 1 is from ``1 / (1 - ratio)``, exactly.

    ``ratio`` counts as the number of ``dtype`` that it is rounded to.

    >>> kernel_error(Taylor(degree=2), 0.5)
    Fraction(1, 4)
    """
    spectrum = torch.tensor([ratio, 1.0], dtype=dtype)
    exact = 1 / (1 - Fraction(spectrum[0].item()))
    return abs(Fraction(rule(spectrum)[1, 0].item()) - exact)


def approximation_errors(
    degrees: Iterable[int], ratios: Iterable[str], families: Iterable[str] = tuple(FAMILIES)
) -> list[Record]:
    """Errors of the approximants and of the kernels by family, degree and ratio of the eigenvalues.

    Args:
        degrees: of the Taylor polynomial, and of the series that the Padé approximant matches.
        ratios: decimal numbers in [0, 1), as text, so that 0.1 is a tenth.
        families: names in :data:`FAMILIES`.

    Returns:
        Records ``family``, ``degree``, ``ratio``, ``error`` (of the approximant) and ``kernel_error``
        (of the float64 kernel).

    >>> approximation_errors([2], ["0.5"], ["taylor"])
    [{'family': 'taylor', 'degree': 2, 'ratio': '0.5', 'error': 0.25, 'kernel_error': 0.25}]
    """
    ratios = list(ratios)
    for ratio in ratios:
        if not 0 <= Fraction(ratio) < 1:
            raise ValueError(f"a ratio of eigenvalues is in [0, 1), got {ratio!r}")
    records: list[Record] = []
    for family in families:
        approximant, rule = FAMILIES[family]
        for degree in degrees:
            approximate, kernel = approximant(degree), rule(degree)
            for ratio in ratios:
                x = Fraction(ratio)
                records.append(
                    {
                        "family": family,
                        "degree": degree,
                        "ratio": ratio,
                        "error": float(abs(approximate(x) - 1 / (1 - x))),
                        "kernel_error": float(kernel_error(kernel, float(x))),
                    }
                )
    return records
