"""The theory behind the paper and behind our gradient, as statements that run.

Each function returns a :class:`~rootpool.paper.result.Result`: the claim, the records it rests on, and
whether they bear it out. :mod:`rootpool.paper.theory.plots` draws them.
"""

from collections.abc import Callable

from ..result import Result
from .pade import pade_coefficients_by_precision, pade_rank
from .power_iteration import power_iteration_is_taylor, power_iteration_rate
from .roots import exact_gradient, ties

__all__ = [
    "THEORY",
    "exact_gradient",
    "pade_coefficients_by_precision",
    "pade_rank",
    "power_iteration_is_taylor",
    "power_iteration_rate",
    "ties",
]

THEORY: dict[str, Callable[[], Result]] = {
    "theory:pade-rank": pade_rank,
    "theory:pade-coefficients": pade_coefficients_by_precision,
    "theory:power-iteration-rate": power_iteration_rate,
    "theory:power-iteration-is-taylor": power_iteration_is_taylor,
    "theory:ties": ties,
    "theory:exact-gradient": exact_gradient,
}
