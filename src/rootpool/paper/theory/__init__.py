"""The theory behind the paper and behind our gradient, as statements that run.

Each statement has a file of its own with its words, its computation and its picture. A new one is such a
file and a line here.
"""

from . import (
    exact_gradient,
    pade_coefficients,
    pade_rank,
    power_iteration_is_taylor,
    power_iteration_rate,
    ties,
)
from .statement import Finding, Statement

__all__ = ["THEORY", "Finding", "Statement"]

THEORY: tuple[Statement, ...] = (
    pade_rank.STATEMENT,
    pade_coefficients.STATEMENT,
    power_iteration_rate.STATEMENT,
    power_iteration_is_taylor.STATEMENT,
    ties.STATEMENT,
    exact_gradient.STATEMENT,
)
