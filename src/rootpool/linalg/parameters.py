"""Checks of parameters that are numbers, for rules, functions and layers alike."""

from __future__ import annotations

import math

__all__ = ["check_at_least", "check_positive"]


def check_positive(name: str, value: float, advice: str = "") -> None:
    """Raise unless ``value`` is a positive, finite number; ``advice`` ends the message."""
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(f"{name} must be positive and finite, got {value!r}{advice}")


def check_at_least(name: str, value: int, least: int) -> None:
    """Raise unless ``value`` is an integer that is not below ``least``."""
    if not isinstance(value, int) or value < least:
        raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")
