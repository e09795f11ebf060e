"""Checks of parameters that are numbers, for rules, functions and layers alike."""

from __future__ import annotations

import math
import numbers

# Comparisons instead of math.isfinite: torch.compile can trace them for numbers that change.


def check_positive(name: str, value: float, advice: str = "") -> None:
    """Raise unless ``value`` is a positive, finite number; ``advice`` ends the message."""
    if not 0 < value < math.inf:
        raise ValueError(f"{name} must be positive and finite, got {value!r}{advice}")


def check_finite(name: str, value: float) -> None:
    """Raise unless ``value`` is a finite number."""
    if not -math.inf < value < math.inf:
        raise ValueError(f"{name} must be finite, got {value!r}")


def check_not_negative(name: str, value: float) -> None:
    """Raise unless ``value`` is a finite number that is not below zero."""
    check_finite(name, value)
    if value < 0:
        raise ValueError(f"{name} must not be negative, got {value!r}")


def check_at_least(name: str, value: int, least: int) -> None:
    """Raise unless ``value`` is an integer, of Python or NumPy, that is not below ``least``."""
    if not isinstance(value, (int, numbers.Integral)) or value < least:
        raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")
