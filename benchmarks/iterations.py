"""The error of every known iteration for polar factors and inverse roots, at equal numbers of products.

    python benchmarks/iterations.py --page docs/appendix/iterations.md

An iteration acts on each singular value (or eigenvalue) by itself, so without rounding its error is that of
a scalar recursion: computed here in 50 digits. What rounding adds is measured on matrices with a known
spectrum. Coefficients are computed, except those that Muon publishes.
"""

from __future__ import annotations

import argparse
import functools
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import mpmath
import torch
from timing import table
from torch import Tensor

from rootpool.files import write_atomically
from rootpool.linalg import Minimax, newton_schulz

mpmath.mp.dps = 50
POINTS = 81  # of each spectrum, from the smallest to the largest value
SIDE = 48  # of the matrices

Steps = Iterator[tuple[float, ...]]


# --------------------------------------------------------------------------------------------------
# Odd polynomials x (a + b x^2 + c x^4), step by step


def constant(*coefficients: float) -> Callable[[float], Steps]:
    def steps(lower: float) -> Steps:
        while True:
            yield coefficients

    return steps


def minimax(degree: int, lower: float | None = None) -> Callable[[float], Steps]:
    """Best on ``[lower, 1]``; without ``lower``, on the interval in which the values really lie."""

    def steps(known: float) -> Steps:
        yield from Minimax(40, lower or min(known, 0.999), degree).coefficients

    return steps


POLYNOMIALS: dict[str, Callable[[float], Steps]] = {
    "Newton-Schulz": constant(1.5, -0.5),
    "Newton-Schulz, quintic": constant(15 / 8, -10 / 8, 3 / 8),
    "Muon's quintic": constant(3.4445, -4.7750, 2.0315),  # Jordan et al. 2024
    "minimax cubic (CANS), from 1e-3": minimax(3, 1e-3),
    "minimax cubic (CANS), interval known": minimax(3),
    "minimax quintic (Polar Express), from 1e-3": minimax(5, 1e-3),
    "minimax quintic (Polar Express), interval known": minimax(5),
}


def products(coefficients: tuple[float, ...], coupled: bool) -> int:
    """Of a step: the square, its square for a quintic, and one (polar) or two (coupled roots) more."""
    return len(coefficients) + (1 if coupled else 0)


def polar_errors(steps: Steps, condition: float, budgets: list[int], coupled: bool) -> list[str]:
    values = [mpmath.mpf(condition) ** (-mpmath.mpf(k) / (POINTS - 1)) for k in range(POINTS)]
    spent, errors = 0, []
    step = next(steps)
    for budget in budgets:
        while spent + products(step, coupled) <= budget:
            spent += products(step, coupled)
            values = [sum(c * x ** (2 * k + 1) for k, c in enumerate(step)) for x in values]
            step = next(steps)
        errors.append(shown(max(abs(1 - x) for x in values)))
    return errors


def shown(error: float | mpmath.mpf) -> str:
    if not mpmath.isfinite(error) or error > 1e3:
        return "diverged"
    return "< 1e-40" if error < 1e-40 else f"{float(error):.0e}"


# --------------------------------------------------------------------------------------------------
# Inverse p-th roots: M -> T^p M with T = t(M), and the root is the product of all T


def newton_factor(p: int, order: int) -> list[mpmath.mpf]:
    """The series of ``m^(-1/p)`` in ``1 - m``, to that order: Newton's (2), or Lakic's (3 and more)."""
    series = [mpmath.mpf(1)]
    for k in range(1, order):
        series.append(series[-1] * (1 + (k - 1) * mpmath.mpf(p)) / (k * mpmath.mpf(p)))
    return series


def power_products(p: int) -> int:
    """Of ``T^p M`` by repeated squaring."""
    return int(math.log2(p)) + bin(p).count("1")


def inverse_root_errors(p: int, order: int, condition: float, budgets: list[int]) -> list[str]:
    series = newton_factor(p, order)
    cost = order - 2 + power_products(p) + 1
    # Distributed Shampoo starts with (p + 1) / 2 of the reciprocal norm for Newton, with 1 for others.
    start = mpmath.mpf(p + 1) / 2 if order == 2 else mpmath.mpf(1)
    values = [
        start * mpmath.mpf(condition) ** (-mpmath.mpf(k) / (POINTS - 1)) for k in range(POINTS)
    ]
    spent, errors = 0, []
    for budget in budgets:
        while spent + cost <= budget:
            spent += cost
            values = [m * sum(b * (1 - m) ** k for k, b in enumerate(series)) ** p for m in values]
        worst = max(abs(1 - mpmath.root(m, p)) if m > 0 else mpmath.inf for m in values)
        errors.append(shown(worst))
    return errors


# --------------------------------------------------------------------------------------------------
# Matrices


@functools.cache
def matrix(condition: float) -> tuple[Tensor, Tensor, Tensor]:
    """A definite matrix with that condition number, its root, and its inverse root, in float64."""
    generator = torch.Generator().manual_seed(0)
    Q = torch.linalg.qr(torch.randn(SIDE, SIDE, dtype=torch.float64, generator=generator)).Q
    lam = torch.logspace(-math.log10(condition), 0, SIDE, dtype=torch.float64)
    return tuple((Q * lam**power) @ Q.mT for power in (1.0, 0.5, -0.5))  # type: ignore[return-value]


ROOTS: dict[str, Callable[[int, float], int | Minimax]] = {
    "Newton-Schulz": lambda budget, _: budget // 3,
    "minimax cubic, from 1e-3": lambda budget, _: Minimax(budget // 3, 1e-3, 3),
    "minimax quintic, from 1e-3": lambda budget, _: Minimax(budget // 4, 1e-3),
    "minimax quintic, interval known": lambda budget, lower: Minimax(budget // 4, lower),
}


def root_errors(name: str, condition: float, dtype: torch.dtype, budgets: list[int]) -> list[str]:
    A, root, inverse = matrix(condition)
    lower = (1 / condition / A.trace().item()) ** 0.5
    cells = []
    for budget in budgets:
        got = newton_schulz(A.to(dtype), ROOTS[name](budget, lower))
        errors = [
            float((g.double() - e).norm() / e.norm())
            for g, e in zip(got, (root, inverse), strict=True)
        ]
        cells.append(" / ".join(map(shown, errors)))
    return cells


# --------------------------------------------------------------------------------------------------


def sections() -> Iterator[tuple[str, str]]:
    budgets, conditions = [12, 18, 24, 30, 36, 48], (1e1, 1e2, 1e3, 1e4)
    rows = [
        [name, f"{condition:.0e}", *polar_errors(steps(1 / condition), condition, budgets, False)]
        for condition in conditions
        for name, steps in POLYNOMIALS.items()
    ]
    header = ["iteration", "condition", *(f"{b} products" for b in budgets)]
    yield "Polar factors, without rounding: largest error of a singular value", table(header, rows)
    budgets = [12, 24, 36, 48]
    rows = [
        [
            name,
            f"{condition:.0e}",
            *polar_errors(steps(condition**-0.5), condition**0.5, budgets, True),
        ]
        for condition in (1e2, 1e4, 1e6, 1e8)
        for name, steps in POLYNOMIALS.items()
    ]
    header = ["iteration", "condition", *(f"{b} products" for b in budgets)]
    yield (
        "Square roots and inverse square roots by coupled iterations, without rounding",
        table(header, rows),
    )
    rows = [
        [
            f"p = {p}",
            f"order {order}",
            f"{condition:.0e}",
            *inverse_root_errors(p, order, condition, budgets),
        ]
        for p in (2, 4)
        for condition in (1e2, 1e4, 1e6, 1e8)
        for order in (2, 3, 4)
    ]
    header = ["root", "coupled Newton", "condition", *(f"{b} products" for b in budgets)]
    yield (
        "Inverse p-th roots by coupled Newton and its higher orders, without rounding",
        table(header, rows),
    )
    for dtype in (torch.float64, torch.float32):
        rows = [
            [name, f"{condition:.0e}", *root_errors(name, condition, dtype, budgets)]
            for condition in (1e2, 1e4, 1e6, 1e8)
            for name in ROOTS
        ]
        header = ["iteration", "condition", *(f"{b} products" for b in budgets)]
        title = f"Matrices in {str(dtype).removeprefix('torch.')}: relative error of root / inverse root"
        yield title, table(header, rows)


PAGE = """# Iterations compared

The error of the known iterations for polar factors, roots and inverse roots, at equal numbers of
matrix products. `python benchmarks/iterations.py --page docs/appendix/iterations.md` writes this page.

An iteration acts on each singular value by itself. So its error without rounding is that of a
scalar recursion, which the first three tables have in 50 digits, for spectra that fill the interval
from 1 / condition to 1. The last two are measured on {side} x {side} matrices with such a spectrum,
which are divided by their trace first, as [`newton_schulz`][rootpool.linalg.newton_schulz] does. A
product of two matrices counts as one; sums are free. A step costs two products for a cubic
polynomial and three for a quintic one; three and four for coupled roots.

- **Newton-Schulz** takes the polynomials that are best near 1: \\((3x - x^3)/2\\), and the quintic
  one \\((15x - 10x^3 + 3x^5)/8\\).
- **Muon's quintic** (Jordan et al. 2024) grows small values fast and does not converge: it is meant
  to end near 1.
- **Minimax** polynomials are best on the interval in which the values lie: cubic ones are those of
  CANS (Grishina et al. 2025), quintic ones those of Polar Express (Amsel et al. 2025). They are
  computed by Remez' exchange, for an assumed interval from 1e-3 to 1, or for the one that the
  values really have.
- **Coupled Newton** (Iannazzo 2006) is the inverse root of order 2 in Distributed Shampoo; higher
  orders (Lakic 1998) take more terms of the same series.

Once there are products enough to converge at all, the quintic minimax polynomials are ahead at
equal cost, by orders of magnitude where the condition number is large. With few products they are
not: they spread their error over all eigenvalues, where Newton-Schulz has the large ones right
first. They are `newton_schulz(A, Minimax(steps, lower))`, and the method `minimax` of pooling layers,
which `rootpool export` uses instead of a decomposition. For inverse roots other than the
square root, and wherever LAPACK is at hand, an eigendecomposition
([`inverse_root`][rootpool.linalg.inverse_root]) is exact whatever the condition number.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--page", type=Path, help="write the page of the documentation here")
    page = parser.parse_args().page
    text = PAGE.format(side=SIDE)
    for title, body in sections():
        print(title, file=sys.stderr)
        text += f"\n## {title}\n\n{body}\n"
    if page:
        write_atomically(page, text)
    else:
        print(text)


if __name__ == "__main__":
    main()
