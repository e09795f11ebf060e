"""Records in, figures out: each method in its own colour and with its own marker everywhere.

Every function takes ``width`` in inches. Text has the same size at each width, so ``WIDE`` suits a page
and ``NARROW`` a phone; ``Picture.of`` draws both.
"""

from __future__ import annotations

from .bars import confusion_pairs, dots_with_spread, paired_differences, speed_bars
from .curves import learning_curve_panels, learning_curves, spectrum_over_training
from .drawing import NARROW, WIDE

__all__ = [
    "NARROW",
    "WIDE",
    "confusion_pairs",
    "dots_with_spread",
    "learning_curve_panels",
    "learning_curves",
    "paired_differences",
    "spectrum_over_training",
    "speed_bars",
]
