"""What a method is: a covariance in, its normalisation out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor

__all__ = ["Method", "check_iterations"]


@dataclass(frozen=True)
class Method(ABC):
    """A normalisation of covariances, ``(..., d, d)`` to ``(..., d, d)``."""

    @property
    def name(self) -> str:
        """Its name in ``METHODS`` or ``BASELINES``; the class's own for a method from elsewhere."""
        from .methods import BASELINES, METHODS

        known = METHODS | BASELINES
        return next((n for n, kind in known.items() if kind is type(self)), type(self).__name__)

    @abstractmethod
    def __call__(self, P: Tensor) -> Tensor:
        """Normalise covariances."""


def check_iterations(name: str, iterations: int) -> None:
    """Raise unless a number of iterations is a positive integer."""
    if not isinstance(iterations, int) or iterations < 1:
        raise ValueError(f"{name}.iterations must be an integer >= 1, got {iterations!r}")
