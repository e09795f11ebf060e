"""The theory behind the paper and behind our gradient, as statements that run.

The words are in ``study.yaml``; each computation has its figure beside it. A new statement is these two
functions, its words, and a line here.
"""

from studies.engine.command import Measure

from .exact_gradient import draw_exact_gradient, exact_gradient
from .pade import draw_pade_coefficients, draw_pade_rank, pade_coefficients_by_digits, pade_rank
from .power_iteration import (
    draw_power_iteration_is_taylor,
    draw_power_iteration_rate,
    power_iteration_is_taylor,
    power_iteration_rate,
)
from .statement import statement
from .ties import draw_ties, ties

__all__ = ["STATEMENTS"]

STATEMENTS: dict[str, Measure] = {
    "pade-rank": statement(pade_rank, draw_pade_rank),
    "pade-coefficients": statement(pade_coefficients_by_digits, draw_pade_coefficients),
    "power-iteration-rate": statement(power_iteration_rate, draw_power_iteration_rate),
    "power-iteration-is-taylor": statement(
        power_iteration_is_taylor, draw_power_iteration_is_taylor
    ),
    "ties": statement(ties, draw_ties),
    "exact-gradient": statement(exact_gradient, draw_exact_gradient),
}
