r"""Polynomials that bring an interval of singular values to 1 in the fewest matrix products.

One step of an iteration for polar factors and roots maps each singular value x by an odd polynomial,
:math:`p(x) = x\,(a + b x^2 + c x^4)`. Newton-Schulz takes the polynomials that are best near 1,
:math:`(3 - x^2)/2` and :math:`(15 - 10 x^2 + 3 x^4)/8`, and waits for small values to arrive there. If all
values lie in :math:`[l, u]`, the polynomial that is best on the whole interval,

.. math:: \min_{a, b, c}\; \max_{l \le x \le u} |1 - p(x)| = E,

leaves them in :math:`[1 - E, 1 + E]`, where the next step begins. The best composition of such
polynomials is the composition of the best ones (Amsel et al., The Polar Express, 2025; Grishina et al.,
CANS, 2025). They are found here by Remez' exchange: the error of the best one reaches :math:`\pm E`
alternately at one point more than it has coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from ._private import constant_for_compilers
from .parameters import check_at_least
from .precision import product

# Within this distance of 1 the polynomials of Newton-Schulz are as good, and those of Remez' ill-conditioned.
_NEAR = 1e-3
_NEWTON_SCHULZ = {3: (1.5, -0.5), 5: (1.875, -1.25, 0.375)}


@dataclass(frozen=True)
class Minimax:
    """Steps of degree 5 (or 3) that are best for singular values from ``lower`` to 1.

    A value to give to :func:`newton_schulz` in place of the number of iterations. Roots of a matrix
    work with the roots of its eigenvalues: ``lower=1e-3`` is for eigenvalues down to a millionth of
    the trace. Smaller ones converge later, by a factor of about ``coefficients[0][0]`` per step.

    Args:
        steps: how many; each costs four matrix products (degree 5) or three (degree 3).
        lower: between 0 and 1, where the interval begins.
        degree: 5 or 3.

    >>> Minimax(steps=2, lower=0.01).error < Minimax(steps=2, lower=0.001).error
    True
    """

    steps: int = 6
    lower: float = 1e-3
    degree: int = 5
    coefficients: tuple[tuple[float, ...], ...] = field(init=False, repr=False)
    error: float = field(init=False, repr=False)  # that is left, without rounding

    def __post_init__(self) -> None:
        check_at_least("Minimax.steps", self.steps, 1)
        if not 0 < self.lower < 1:
            raise ValueError(f"Minimax.lower must lie between 0 and 1, got {self.lower!r}")
        if self.degree not in _NEWTON_SCHULZ:
            raise ValueError(f"Minimax.degree must be 3 or 5, got {self.degree!r}")
        low, high = self.lower, 1.0
        steps = []
        for _ in range(self.steps):
            coefficients, error = best_odd_polynomial(low, high, self.degree)
            steps.append(coefficients)
            low, high = 1 - error, 1 + error
        object.__setattr__(self, "coefficients", tuple(steps))
        object.__setattr__(self, "error", error)

    def coupled(self, Y: Tensor, identity: Tensor) -> tuple[Tensor, Tensor]:
        """Root and inverse root of ``Y`` ``(..., n, n)`` with eigenvalues up to 1: products only."""
        Z = identity.expand_as(Y)
        for k, (a, b, *rest) in enumerate(self.coefficients):
            P = Y if k == 0 else product(Z, Y)
            H = a * identity + b * P
            if rest:
                H = H + rest[0] * product(P, P)
            Y, Z = product(Y, H), H if k == 0 else product(H, Z)
        return Y, Z


# The compiler of torch 2.8 cannot trace the search, and no compiler needs to.
@constant_for_compilers
def best_odd_polynomial(
    low: float, high: float, degree: int = 5
) -> tuple[tuple[float, ...], float]:
    """Coefficients of ``x, x^3, ...`` of the odd polynomial nearest to 1 on an interval, and its error.

    >>> coefficients, error = best_odd_polynomial(0.5, 1.0, 3)
    >>> [
    ...     round(sum(c * x ** (2 * k + 1) for k, c in enumerate(coefficients)) - 1, 6)
    ...     for x in (0.5, 1)
    ... ]
    [-0.085955, -0.085955]
    """
    near = max(1 - low, high - 1)
    if near < _NEAR:
        order = (degree + 1) // 2
        leading = 1.5 if order == 2 else 2.5  # of 1 - p(1 - e) = leading * e^order + ...
        return _NEWTON_SCHULZ[degree], leading * near**order
    count = (degree + 1) // 2
    points = [low + (high - low) * k / count for k in range(count + 1)]
    for _ in range(100):
        *coefficients, error = _solve(
            [
                [x ** (2 * k + 1) for k in range(count)] + [(-1.0) ** i]
                for i, x in enumerate(points)
            ],
            [1.0] * (count + 1),
        )
        moved = [low, *_extrema(coefficients), high]
        if len(moved) != count + 1 or any(not low <= x <= high for x in moved):
            moved = points
        change = max(abs(x - y) for x, y in zip(moved, points, strict=True))
        points = moved
        if change <= 1e-15 * high:
            break
    return tuple(coefficients), abs(error)


def _extrema(coefficients: list[float]) -> list[float]:
    """Positive zeros of the derivative, ascending."""
    a, b, *rest = coefficients
    if not rest:
        return [(-a / (3 * b)) ** 0.5] if a * b < 0 else []
    c = rest[0]
    discriminant = 9 * b * b - 20 * a * c
    if discriminant < 0 or a * c < 0 or b * c > 0:
        return []
    # The zeros of 5 c t^2 + 3 b t + a without cancellation, as b < 0.
    large = (-3 * b + discriminant**0.5) / 2
    return [(a / large) ** 0.5, (large / (5 * c)) ** 0.5]


def _solve(rows: list[list[float]], right: list[float]) -> list[float]:
    """Gauss with pivots, for a handful of unknowns; torch would have to be traced by compilers."""
    n = len(rows)
    rows = [[*row, value] for row, value in zip(rows, right, strict=True)]
    for k in range(n):
        pivot = max(range(k, n), key=lambda i: abs(rows[i][k]))
        rows[k], rows[pivot] = rows[pivot], rows[k]
        for i in range(k + 1, n):
            factor = rows[i][k] / rows[k][k]
            rows[i] = [x - factor * y for x, y in zip(rows[i], rows[k], strict=True)]
    solution = [0.0] * n
    for k in reversed(range(n)):
        known = sum(rows[k][j] * solution[j] for j in range(k + 1, n))
        solution[k] = (rows[k][n] - known) / rows[k][k]
    return solution
