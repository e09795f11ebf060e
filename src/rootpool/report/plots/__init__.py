"""Plots: records in, figures out. A method has the same colour and marker in every plot.

A record is a mapping with ``run``, the drawn values and, where they apply, the tags ``method``, ``protocol``
and ``seed``.
"""

from __future__ import annotations

from .bars import dots_with_spread, paired_differences, speed_bars
from .confusion import confusion_matrix
from .curves import learning_curves
from .drawing import WIDE

__all__ = [
    "WIDE",
    "confusion_matrix",
    "dots_with_spread",
    "learning_curves",
    "paired_differences",
    "speed_bars",
]
