"""What a method is: a normalisation of covariances that knows its name, source, use and bound."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rootpool.linalg.parameters import check_at_least

__all__ = ["SOURCES", "KernelBound", "Method", "check_iterations"]

SOURCES = ("ours", "paper", "follow-up", "baseline")


@dataclass(frozen=True)
class KernelBound:
    """How large an entry of a kernel can become: the value, its formula, the eigenvalues that reach it."""

    value: float
    formula: str
    trigger: str


@dataclass(frozen=True)
class Method(ABC):
    """A normalisation of covariances, ``(..., d, d)`` to ``(..., d, d)``.

    A subclass is a frozen dataclass whose fields are its parameters. It sets three class variables:

    * ``name``: how users, recipes and tables call it, such as ``"svd-pade"``;
    * ``source``: ``"ours"`` (introduced by this project), ``"paper"`` (studied in the paper),
      ``"follow-up"`` (published after it) or ``"baseline"`` (a simpler normalisation to compare with);
    * ``use``: one line that says when to choose it.

    Two more have defaults:

    * ``centred``: False if it takes second moments, :math:`X X^T / N`, instead of covariances; poolings
      give it what it takes;
    * ``symmetry``: which changes of the channels it follows: ``"rotations"``, as every function of
      eigenvalues does, ``"permutations"`` if it looks at entries, ``"none"`` if their order matters.

    :func:`rootpool.nn.register` adds it to ``METHODS``.
    """

    name: ClassVar[str]
    source: ClassVar[str]
    use: ClassVar[str]
    centred: ClassVar[bool] = True
    symmetry: ClassVar[str] = "rotations"

    @abstractmethod
    def __call__(self, P: Tensor) -> Tensor:
        """Normalise covariances."""

    def initial_parameters(self) -> tuple[float, ...]:
        """The trainable parameters at the start of a training; most methods have none."""
        return ()

    def at(self, parameters: Tensor) -> Method:
        """The method with given values ``(k,)`` of its trainable parameters; itself if it has none."""
        return self

    def readable(self, parameters: Tensor) -> dict[str, float]:
        """What the parameters mean, by name."""
        return {}

    def kernel_bound(self, dtype: torch.dtype = torch.float64) -> KernelBound | None:
        """The largest entry of the kernel in its gradient; None if it has no kernel, or no known bound."""
        return None


def check_iterations(name: str, iterations: int) -> None:
    """Raise unless a number of iterations is a positive integer."""
    check_at_least(f"{name}.iterations", iterations, 1)
