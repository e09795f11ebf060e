"""The theory behind the paper and behind our gradient, as statements that run.

The words are in ``statements.yaml``; each computation has its figure beside it. A new statement is these
two functions, its words, and a line here.
"""

from .exact_gradient import draw_exact_gradient, exact_gradient
from .pade import draw_pade_coefficients, draw_pade_rank, pade_coefficients_by_digits, pade_rank
from .power_iteration import (
    draw_power_iteration_is_taylor,
    draw_power_iteration_rate,
    power_iteration_is_taylor,
    power_iteration_rate,
)
from .statement import Finding, Statement, words
from .ties import draw_ties, ties

__all__ = ["INTRODUCTION", "THEORY", "Finding", "Statement"]

INTRODUCTION: tuple[str, ...] = tuple(words()["introduction"])

THEORY: tuple[Statement, ...] = (
    Statement.written("pade-rank", pade_rank, draw_pade_rank),
    Statement.written("pade-coefficients", pade_coefficients_by_digits, draw_pade_coefficients),
    Statement.written("power-iteration-rate", power_iteration_rate, draw_power_iteration_rate),
    Statement.written(
        "power-iteration-is-taylor", power_iteration_is_taylor, draw_power_iteration_is_taylor
    ),
    Statement.written("ties", ties, draw_ties),
    Statement.written("exact-gradient", exact_gradient, draw_exact_gradient),
)
